// The operator: a Widget gets a ConfigMap of its own, and says so in its status.
package main

import (
	"context"
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

var kind = schema.GroupVersionKind{Group: "shop.example.com", Version: "v1", Kind: "Widget"}

func definitions() []*apiextensionsv1.CustomResourceDefinition {
	size := apiextensionsv1.JSONSchemaProps{Type: "integer"}
	object := func(properties map[string]apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "object", Properties: properties}
	}
	schema := object(map[string]apiextensionsv1.JSONSchemaProps{
		"spec":   object(map[string]apiextensionsv1.JSONSchemaProps{"size": size}),
		"status": object(map[string]apiextensionsv1.JSONSchemaProps{"made": {Type: "string"}}),
	})
	return []*apiextensionsv1.CustomResourceDefinition{{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.shop.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: kind.Group,
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Kind: kind.Kind},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: kind.Version, Served: true, Storage: true,
				Schema:       &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &schema},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	}}
}

func rules() []admissionv1.RuleWithOperations {
	return []admissionv1.RuleWithOperations{{
		Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
		Rule:       admissionv1.Rule{APIGroups: []string{kind.Group}, APIVersions: []string{"v1"}, Resources: []string{"widgets"}},
	}}
}

// Where the webhook server of the test listens, envtest fills in.
func service(path string) admissionv1.WebhookClientConfig {
	return admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Name: "hooks", Namespace: "default", Path: ptr.To(path)}}
}

func mutating() *admissionv1.MutatingWebhookConfiguration {
	return &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets"},
		Webhooks: []admissionv1.MutatingWebhook{{
			Name: "default.widgets.example.com", ClientConfig: service("/default"), Rules: rules(),
			SideEffects: ptr.To(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		}},
	}
}

func validating() *admissionv1.ValidatingWebhookConfiguration {
	return &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets"},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "validate.widgets.example.com", ClientConfig: service("/validate"), Rules: rules(),
			SideEffects: ptr.To(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		}},
	}
}

func widget(name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	object.SetNamespace("default")
	object.SetName(name)
	return object
}

type defaulter struct{}

func (defaulter) Default(_ context.Context, object *unstructured.Unstructured) error {
	if _, found, _ := unstructured.NestedInt64(object.Object, "spec", "size"); found {
		return nil
	}
	return unstructured.SetNestedField(object.Object, int64(7), "spec", "size")
}

type validator struct{}

func check(object *unstructured.Unstructured) (admission.Warnings, error) {
	size, _, _ := unstructured.NestedInt64(object.Object, "spec", "size")
	if size > 100 {
		return nil, errors.New("a widget of that size does not fit")
	}
	return nil, nil
}

func (validator) ValidateCreate(_ context.Context, object *unstructured.Unstructured) (admission.Warnings, error) {
	return check(object)
}

func (validator) ValidateUpdate(_ context.Context, _, object *unstructured.Unstructured) (admission.Warnings, error) {
	return check(object)
}

func (validator) ValidateDelete(context.Context, *unstructured.Unstructured) (admission.Warnings, error) {
	return nil, nil
}

type reconciler struct{ client.Client }

func (r reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	owner := widget(request.Name)
	if err := r.Get(ctx, request.NamespacedName, owner); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	size, _, _ := unstructured.NestedInt64(owner.Object, "spec", "size")
	page := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: request.Name, Namespace: request.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, page, func() error {
		page.Data = map[string]string{"size": fmt.Sprint(size)}
		return controllerutil.SetControllerReference(owner, page, r.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	before := owner.DeepCopy()
	if err := unstructured.SetNestedField(owner.Object, page.Name, "status", "made"); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.Status().Patch(ctx, owner, client.MergeFrom(before))
}

func manager(environment *envtest.Environment, config *rest.Config) (ctrl.Manager, error) {
	hooks := environment.WebhookInstallOptions
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: hooks.LocalServingHost, Port: hooks.LocalServingPort, CertDir: hooks.LocalServingCertDir,
		}),
		LeaderElection: true, LeaderElectionID: "widgets", LeaderElectionNamespace: "default",
	})
	if err != nil {
		return nil, err
	}
	scheme := manager.GetScheme()
	server := manager.GetWebhookServer()
	server.Register("/default", admission.WithDefaulter[*unstructured.Unstructured](scheme, defaulter{}))
	server.Register("/validate", admission.WithValidator[*unstructured.Unstructured](scheme, validator{}))
	err = ctrl.NewControllerManagedBy(manager).For(widget("")).Owns(&corev1.ConfigMap{}).Complete(reconciler{manager.GetClient()})
	return manager, err
}

func operate(ctx context.Context, environment *envtest.Environment, config *rest.Config) error {
	manager, err := manager(environment, config)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(running) }()
	defer stop()
	admin, err := client.New(config, client.Options{Scheme: manager.GetScheme()})
	if err != nil {
		return err
	}
	// Until the webhook server listens, every attempt is refused.
	if err := eventually(func() error { return admin.Create(ctx, widget("first")) }); err != nil {
		return err
	}
	page := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: "default", Name: "first"}
	if err := eventually(func() error { return admin.Get(ctx, key, page) }); err != nil {
		return err
	}
	if page.Data["size"] != "7" {
		return fmt.Errorf("the default of the webhook: %v", page.Data)
	}
	large := widget("large")
	_ = unstructured.SetNestedField(large.Object, int64(1000), "spec", "size")
	err = admin.Create(ctx, large)
	if !apierrors.IsForbidden(err) {
		return fmt.Errorf("a widget that is too large: %v", err)
	}
	say("%v", err)
	// What somebody removes comes again; what is owned goes with its owner.
	if err := admin.Delete(ctx, page); err != nil {
		return err
	}
	uid := page.UID
	err = eventually(func() error {
		if err := admin.Get(ctx, key, page); err != nil || page.UID == uid {
			return fmt.Errorf("not made again: %v", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = eventually(func() error {
		found := widget("first")
		if err := admin.Get(ctx, key, found); err != nil {
			return err
		}
		if made, _, _ := unstructured.NestedString(found.Object, "status", "made"); made != "first" {
			return fmt.Errorf("the status says %q", made)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := admin.Delete(ctx, widget("first")); err != nil {
		return err
	}
	err = eventually(func() error {
		if err := admin.Get(ctx, key, page); !apierrors.IsNotFound(err) {
			return fmt.Errorf("what is owned stays: %v", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	say("an operator keeps what it owns")
	stop()
	return <-ended
}
