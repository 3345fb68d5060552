// Works on the custom resource websites.example.com with client-go's dynamic client and informer, which know nothing of
// it but its name.
//
// Usage: dynamic-client NAMESPACE, with KUBECONFIG set and the resource defined. Prints one line per step; exits
// non-zero at the first surprise.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

var kind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Website"}

func main() {
	if len(os.Args) != 2 {
		fail("usage: dynamic-client NAMESPACE")
	}
	namespace := os.Args[1]
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	check(err, "read the kubeconfig")
	resource := find(config)
	client, err := dynamic.NewForConfig(config)
	check(err, "make a client")
	events := inform(ctx, client, resource, namespace)
	run(ctx, client.Resource(resource).Namespace(namespace), events)
	fmt.Println("done")
}

// find asks discovery for the resource of the kind.
func find(config *rest.Config) schema.GroupVersionResource {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	check(err, "make a discovery client")
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client))
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	check(err, "find the resource")
	if mapping.Resource.Resource != "websites" || mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		fail("found %v, scope %s", mapping.Resource, mapping.Scope.Name())
	}
	fmt.Println("found", mapping.Resource.Resource)
	return mapping.Resource
}

// inform starts an informer and gives what it tells, as in "add blog".
func inform(ctx context.Context, client dynamic.Interface, resource schema.GroupVersionResource, namespace string) <-chan string {
	events := make(chan string, 100)
	tell := func(what string, object any) {
		if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = gone.Obj
		}
		events <- what + " " + object.(*unstructured.Unstructured).GetName()
	}
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, namespace, nil)
	informer := factory.ForResource(resource).Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { tell("add", object) },
		UpdateFunc: func(_, object any) { tell("update", object) },
		DeleteFunc: func(object any) { tell("delete", object) },
	})
	check(err, "add a handler")
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		fail("the informer does not sync")
	}
	fmt.Println("synced")
	return events
}

func run(ctx context.Context, websites dynamic.ResourceInterface, events <-chan string) {
	created, err := websites.Create(ctx, website("blog", map[string]any{"domain": "blog.example.com"}), metav1.CreateOptions{})
	check(err, "create")
	if image, _, _ := unstructured.NestedString(created.Object, "spec", "image"); image != "nginx" {
		fail("created without its default: %v", created.Object)
	}
	expect(events, "add blog")

	_, err = websites.Create(ctx, website("bad", map[string]any{"domain": "UPPER"}), metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) {
		fail("creating what the schema refuses: %v", err)
	}

	check(unstructured.SetNestedField(created.Object, int64(3), "spec", "replicas"), "set replicas")
	updated, err := websites.Update(ctx, created, metav1.UpdateOptions{})
	check(err, "update")
	if updated.GetGeneration() != 2 {
		fail("generation %d after a change", updated.GetGeneration())
	}
	expect(events, "update blog")
	if _, err = websites.Update(ctx, created, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		fail("updating with an old resourceVersion: %v", err)
	}

	check(unstructured.SetNestedField(updated.Object, int64(2), "status", "replicas"), "set the status")
	updated, err = websites.UpdateStatus(ctx, updated, metav1.UpdateOptions{})
	check(err, "update the status")
	if updated.GetGeneration() != 2 {
		fail("generation %d after a change of status", updated.GetGeneration())
	}
	expect(events, "update blog")

	patch := []byte(`{"metadata":{"labels":{"patched":"yes"}}}`)
	_, err = websites.Patch(ctx, "blog", types.MergePatchType, patch, metav1.PatchOptions{})
	check(err, "patch")
	expect(events, "update blog")
	_, err = websites.Patch(ctx, "blog", types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if !apierrors.IsUnsupportedMediaType(err) {
		fail("a strategic merge patch: %v", err)
	}

	shop := website("shop", map[string]any{"domain": "shop.example.com"})
	_, err = websites.Apply(ctx, "shop", shop, metav1.ApplyOptions{FieldManager: "dynamic-client"})
	check(err, "apply")
	expect(events, "add shop")
	list, err := websites.List(ctx, metav1.ListOptions{LabelSelector: "patched=yes"})
	check(err, "list")
	if len(list.Items) != 1 || list.Items[0].GetName() != "blog" || list.GetKind() != "WebsiteList" {
		fail("listed %d of %s", len(list.Items), list.GetKind())
	}
	scale, err := websites.Get(ctx, "blog", metav1.GetOptions{}, "scale")
	check(err, "get the scale")
	if replicas, _, _ := unstructured.NestedInt64(scale.Object, "spec", "replicas"); replicas != 3 || scale.GetKind() != "Scale" {
		fail("scale: %v", scale.Object)
	}

	check(websites.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}), "delete all")
	expect(events, "delete blog")
	expect(events, "delete shop")
}

func website(name string, spec map[string]any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(kind)
	object.SetName(name)
	return object
}

func expect(events <-chan string, expected string) {
	select {
	case event := <-events:
		if event != expected {
			fail("informed of %q, expected %q", event, expected)
		}
		fmt.Println(event)
	case <-time.After(10 * time.Second):
		fail("nothing is told of %q", expected)
	}
}

func check(err error, what string) {
	if err != nil {
		fail("%s: %v", what, err)
	}
}

func fail(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", arguments...)
	os.Exit(1)
}
