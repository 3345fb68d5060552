//! What a node asks for in the name of its pods: tokens of their service accounts, and certificates.

// tidy: types Pod TokenRequest PersistentVolumeClaim PersistentVolume CSIDriver PodCertificateRequest

use rkube_access::authorize::node::references;
use rkube_access::authorize::{Attributes as Asked, ResourceAttributes};
use rkube_machinery::field::quote;
use rkube_machinery::{GroupResource, Status, Value};

use super::{NodeRestriction, Write};

impl NodeRestriction {
    /// Tokens are bound to a pod of the node, and for whom its volumes say.
    pub(super) fn account(&self, write: &Write<'_, '_>) -> Result<(), Status> {
        if !write.attributes.is_create() || write.attributes.subresource != "token" {
            return Ok(());
        }
        let spec = write.object.get("spec");
        let bound = spec.get("boundObjectRef");
        let uid = bound.str("uid");
        if (bound.str("apiVersion"), bound.str("kind")) != ("v1", "Pod") || bound.str("name").is_empty() {
            return write.refuse("node requested token not bound to a pod");
        }
        if uid.is_empty() {
            return write.refuse("node requested token with a pod binding without a uid");
        }
        let pod = self.find_pod(write.attributes.namespace, bound.str("name"))?;
        if uid != pod.get("metadata").str("uid") {
            return write.refuse(format!(
                "the UID in the bound object reference ({uid}) does not match the UID in record. \
                 The object might have been deleted and then recreated"
            ));
        }
        if pod.get("spec").str("nodeName") != write.node {
            return write.refuse("node requested token bound to a pod scheduled on a different node");
        }
        let audience = match spec.list("audiences") {
            [] => "",
            [one] => one.as_str(),
            _ => return write.refuse("node may only request 0 or 1 audiences"),
        };
        self.check_audience(write, &pod, audience)
    }

    fn check_audience(&self, write: &Write<'_, '_>, pod: &Value, audience: &str) -> Result<(), Status> {
        match self.is_mounted(write.attributes.namespace, pod, audience) {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(why) => return write.refuse(format!("error validating audience {}: {why}", quote(audience))),
        }
        let user = write.attributes.user;
        let asked = ResourceAttributes {
            verb: "request-serviceaccounts-token-audience",
            version: "v1",
            resource: audience,
            namespace: write.attributes.namespace,
            name: write.attributes.name,
            ..ResourceAttributes::default()
        };
        if self.authorizers.allow(user, &Asked::Resource(asked)) {
            return Ok(());
        }
        write.refuse(format!(
            "audience {} not found in pod spec volume, {} is not authorized to request tokens for this audience",
            quote(audience),
            user.name
        ))
    }

    /// Whether a volume of the pod asks for tokens for this audience: a projected one, or the driver of one.
    fn is_mounted(&self, namespace: &str, pod: &Value, audience: &str) -> Result<bool, String> {
        let mut errors = Vec::new();
        for volume in pod.get("spec").list("volumes") {
            let mut tokens =
                volume.get("projected").list("sources").iter().map(|source| source.get("serviceAccountToken"));
            if tokens.any(|token| !token.is_null() && token.str("audience") == audience) {
                return Ok(true);
            }
            let claim = volume.get("persistentVolumeClaim").str("claimName");
            let driver = match volume.get("csi").str("driver") {
                _ if volume.has("ephemeral") => {
                    let pod = pod.get("metadata").str("name");
                    self.driver_of(namespace, &format!("{pod}-{}", volume.str("name")))
                }
                _ if !claim.is_empty() => self.driver_of(namespace, claim),
                driver => Ok(driver.to_owned()),
            };
            match driver.and_then(|driver| self.asks_for(&driver, audience)) {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(why) => errors.push(why),
            }
        }
        match errors.as_slice() {
            [] => Ok(false),
            [one] => Err(one.clone()),
            all => Err(format!("[{}]", all.join(", "))),
        }
    }

    /// The driver of the volume behind a claim; empty where it has none.
    fn driver_of(&self, namespace: &str, claim: &str) -> Result<String, String> {
        let missing = |kind: &str, name: &str| format!("{kind} {} not found", quote(name));
        let found = self.claims.find(namespace, claim).ok_or_else(|| missing("persistentvolumeclaim", claim))?;
        let found = found.value(0);
        let volume = found.get("spec").str("volumeName");
        let found = self.volumes.find("", volume).ok_or_else(|| missing("persistentvolume", volume))?;
        Ok(found.value(0).at(&["spec", "csi"]).str("driver").to_owned())
    }

    fn asks_for(&self, driver: &str, audience: &str) -> Result<bool, String> {
        if driver.is_empty() {
            return Ok(false);
        }
        let found = self.drivers.find("", driver);
        let found = found.ok_or_else(|| format!("csidriver.storage.k8s.io {} not found", quote(driver)))?;
        let found = found.value(0);
        Ok(found.get("spec").list("tokenRequests").iter().any(|request| request.str("audience") == audience))
    }

    /// A certificate for a pod: all that the request says of it must be so.
    pub(super) fn certificate_request(&self, write: &Write<'_, '_>) -> Result<(), Status> {
        if !write.attributes.is_create() {
            return write.refuse(format!("unexpected operation {}", write.attributes.operation.name()));
        }
        if !write.attributes.subresource.is_empty() {
            return write.refuse(format!("unexpected subresource {}", write.attributes.subresource));
        }
        let (spec, namespace) = (write.object.get("spec"), write.attributes.namespace);
        let named = spec.str("nodeName");
        let pod_name = quote(&format!("{namespace}/{}", spec.str("podName")));
        if named != write.node {
            return write.refuse(format!(
                "PodCertificateRequest.Spec.NodeName={}, which is not the requesting node {}",
                quote(named),
                quote(write.node)
            ));
        }
        let node = self.nodes.find("", named);
        let node = node.ok_or_else(|| lost("node", &quote(named), "node", named))?;
        let (given, uid) = (quote(spec.str("nodeUID")), quote(&node.uid));
        if given != uid {
            let why = format!("names node UID {given}, inconsistent with the running node ({uid})");
            return Err(retry(format!("PodCertificateRequest for pod {pod_name} {why}")));
        }
        let pod = self.pods.find(namespace, spec.str("podName"));
        let pod = pod.ok_or_else(|| lost("pod", &pod_name, "pod", spec.str("podName")))?;
        let (given, uid) = (quote(spec.str("podUID")), quote(&pod.uid));
        if given != uid {
            let why = format!("contains pod UID ({given}) which differs from running pod {uid}");
            return Err(retry(format!("PodCertificateRequest for pod {pod_name} {why}")));
        }
        self.check_certificate_pod(write, &pod.value(0), &pod_name)
    }

    fn check_certificate_pod(&self, write: &Write<'_, '_>, pod: &Value, pod_name: &str) -> Result<(), Status> {
        let (spec, namespace) = (write.object.get("spec"), write.attributes.namespace);
        if pod.get("spec").str("nodeName") != write.node {
            let node = quote(write.node);
            let why = format!("pod {pod_name} is not running on node {node} named in the PodCertificateRequest");
            return write.refuse(why);
        }
        if references::is_mirror(pod) {
            return write.refuse(format!("pod {pod_name} is a mirror pod"));
        }
        let (given, account) = (spec.str("serviceAccountName"), pod.get("spec").str("serviceAccountName"));
        if given != account {
            return write.refuse(format!(
                "PodCertificateRequest for pod {pod_name} contains serviceAccountName ({}) \
                 that differs from running pod ({})",
                quote(given),
                quote(account)
            ));
        }
        let found = self.accounts.find(namespace, given);
        let shown = quote(&format!("{namespace}/{given}"));
        let found = found.ok_or_else(|| lost("service account", &shown, "serviceaccount", given))?;
        let (uid, known) = (quote(spec.str("serviceAccountUID")), quote(&found.uid));
        if uid != known {
            let why =
                format!("names service account UID {uid}, which differs from the running service account ({known})");
            return Err(retry(format!("PodCertificateRequest for pod {pod_name} {why}")));
        }
        Ok(())
    }
}

/// Something that a request names is not there: upstream's caches may lag, so that is no refusal.
fn lost(what: &str, shown: &str, resource: &str, name: &str) -> Status {
    let missing = Status::not_found(&GroupResource::new("", resource), name);
    let message = format!("while retrieving {what} {shown} named in the PodCertificateRequest: {}", missing.message);
    Status { message, ..missing }
}

/// An error that may be gone the next time.
fn retry(message: String) -> Status {
    Status { code: 500, message, ..Status::default() }
}
