//! A webhook in Python over TLS, as its author would run it.

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use rkube_testkit::{Process, Rkube, TIMEOUT, Tool};

pub struct Webhook {
    script: Tool,
    certificate: String,
    key: String,
    pub port: String,
    /// The certificate in base64, which is its own authority, as `openssl req -x509` makes it.
    pub bundle: String,
    process: Option<Process>,
}

impl Webhook {
    pub fn start(rkube: &Rkube, script: &str) -> Option<Webhook> {
        let script = rkube.python(script)?;
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap().pem();
        let file = |name: &str, text: &str| {
            let path = rkube.scratch_directory().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let bundle = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, &certificate);
        let (certificate, key) = (file("webhook.crt", &certificate), file("webhook.key", &key.serialize_pem()));
        let mut webhook = Webhook { script, certificate, key, port: "0".to_owned(), bundle, process: None };
        webhook.run();
        Some(webhook)
    }

    /// Runs it, on the same port as before.
    pub fn run(&mut self) {
        let process = self.script.start(&[&self.certificate, &self.key, &self.port]);
        self.port = process.next_line(TIMEOUT).expect("the webhook says where it listens");
        self.process = Some(process);
    }

    pub fn stop(&mut self) {
        self.process = None;
    }

    /// A text in which `PORT` and `BUNDLE` stand for where it is and whom to trust.
    pub fn fill_in(&self, text: &str) -> String {
        text.replace("PORT", &self.port).replace("BUNDLE", &self.bundle)
    }
}
