// An operator as people wrote it in 2021, with controller-runtime 0.9: a typed custom resource registered by hand, envtest
// with the arguments of that time, a manager with the fields of that time. It keeps a Deployment for every Site.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

var version = schema.GroupVersion{Group: "web.example.com", Version: "v1alpha1"}

type Site struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              SiteSpec   `json:"spec,omitempty"`
	Status            SiteStatus `json:"status,omitempty"`
}

type SiteSpec struct {
	Replicas int32  `json:"replicas"`
	Image    string `json:"image"`
}

type SiteStatus struct {
	Deployment string `json:"deployment,omitempty"`
}

type SiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Site `json:"items"`
}

func (in *Site) DeepCopyObject() runtime.Object {
	out := *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

func (in *SiteList) DeepCopyObject() runtime.Object {
	out := *in
	out.Items = nil
	for index := range in.Items {
		out.Items = append(out.Items, *in.Items[index].DeepCopyObject().(*Site))
	}
	return &out
}

func definition() client.Object {
	keep := true
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "sites.web.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: version.Group,
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "sites", Singular: "site", Kind: "Site", ListKind: "SiteList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: version.Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: &keep,
				}},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	}
}

type reconciler struct {
	client.Client
	scheme *runtime.Scheme
}

const finalizer = "web.example.com/finalizer"

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	site := &Site{}
	if err := r.Get(ctx, request.NamespacedName, site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !site.DeletionTimestamp.IsZero() {
		controllerutil.RemoveFinalizer(site, finalizer)
		return ctrl.Result{}, client.IgnoreNotFound(r.Update(ctx, site))
	}
	if !controllerutil.ContainsFinalizer(site, finalizer) {
		controllerutil.AddFinalizer(site, finalizer)
		if err := r.Update(ctx, site); err != nil {
			return ctrl.Result{}, err
		}
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: site.Name, Namespace: site.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, deployment, func() error {
		labels := map[string]string{"site": site.Name}
		deployment.Spec.Replicas = &site.Spec.Replicas
		deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		deployment.Spec.Template.Labels = labels
		deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: site.Spec.Image}}
		return controllerutil.SetControllerReference(site, deployment, r.scheme)
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	if site.Status.Deployment == deployment.Name {
		return ctrl.Result{}, nil
	}
	site.Status.Deployment = deployment.Name
	return ctrl.Result{}, r.Status().Update(ctx, site)
}

func main() {
	ctrl.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	if err := run(); err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

func run() (failure error) {
	environment := &envtest.Environment{CRDs: []client.Object{definition()}}
	environment.ControlPlane.GetAPIServer().Configure().Append("v", "2").Append("watch-cache-sizes", "pods#100")
	config, err := environment.Start()
	if err != nil {
		return err
	}
	defer func() {
		if err := environment.Stop(); err != nil && failure == nil {
			failure = err
		}
	}()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	scheme.AddKnownTypes(version, &Site{}, &SiteList{})
	metav1.AddToGroupVersion(scheme, version)
	manager, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, MetricsBindAddress: "0"})
	if err != nil {
		return err
	}
	r := &reconciler{manager.GetClient(), scheme}
	if err := ctrl.NewControllerManagedBy(manager).For(&Site{}).Owns(&appsv1.Deployment{}).Complete(r); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() { _ = manager.Start(ctx) }()
	return use(ctx, directClient(manager))
}

func directClient(manager ctrl.Manager) client.Client {
	// Straight to the server, past the cache.
	direct, err := client.New(manager.GetConfig(), client.Options{Scheme: manager.GetScheme()})
	if err != nil {
		panic(err)
	}
	return direct
}

func use(ctx context.Context, direct client.Client) error {
	site := &Site{ObjectMeta: metav1.ObjectMeta{Name: "blog", Namespace: "default"}, Spec: SiteSpec{Replicas: 2, Image: "web:1"}}
	if err := direct.Create(ctx, site); err != nil {
		return err
	}
	key, deployment := client.ObjectKeyFromObject(site), &appsv1.Deployment{}
	err := eventually(func() error {
		if err := direct.Get(ctx, key, site); err != nil {
			return err
		}
		if site.Status.Deployment != "blog" {
			return fmt.Errorf("the status is %v", site.Status)
		}
		return direct.Get(ctx, key, deployment)
	})
	if err != nil {
		return err
	}
	patch := client.MergeFrom(site.DeepCopyObject().(client.Object))
	site.Spec.Replicas = 3
	if err := direct.Patch(ctx, site, patch); err != nil {
		return err
	}
	err = eventually(func() error {
		if err := direct.Get(ctx, key, deployment); err != nil || *deployment.Spec.Replicas != 3 {
			return fmt.Errorf("not changed: %v", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Println("the operator follows its sites")
	if err := direct.Delete(ctx, site); err != nil {
		return err
	}
	err = eventually(func() error {
		if err := direct.Get(ctx, key, deployment); !apierrors.IsNotFound(err) {
			return fmt.Errorf("still there: %v", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Println("what a site owns goes with it")
	return nil
}

func eventually(attempt func() error) error {
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = attempt(); err == nil {
			return nil
		}
	}
	return err
}
