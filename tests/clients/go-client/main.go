// Creates, lists and watches pods with client-go over protobuf, as Kubernetes' own components do.
//
// Usage: go-client NAMESPACE, with KUBECONFIG set. Prints one line per step; exits non-zero at the first surprise.
// Or: go-client --patches, which makes the patches that kubectl would send (see patches.go), without a server.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

const protobuf = "application/vnd.kubernetes.protobuf"

func main() {
	if len(os.Args) != 2 {
		fail("usage: go-client NAMESPACE | --patches")
	}
	if os.Args[1] == "--patches" {
		answerPatches()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	client, answers := connect()
	run(ctx, client, os.Args[1])
	for contentType, count := range answers.counts {
		if count > 0 && !strings.HasPrefix(contentType, protobuf) {
			fail("%d answers came as %q", count, contentType)
		}
	}
	fmt.Println("done")
}

func run(ctx context.Context, client kubernetes.Interface, namespace string) {
	pods := client.CoreV1().Pods(namespace)
	before, err := pods.List(ctx, metav1.ListOptions{})
	check(err, "list before")
	watcher, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: before.ResourceVersion})
	check(err, "watch")
	defer watcher.Stop()

	for _, name := range []string{"one", "two"} {
		created, err := pods.Create(ctx, pod(name), metav1.CreateOptions{})
		check(err, "create "+name)
		if created.UID == "" || created.ResourceVersion == "" || created.CreationTimestamp.IsZero() {
			fail("pod %s came back without uid, resourceVersion or creationTimestamp", name)
		}
		if created.Spec.RestartPolicy != corev1.RestartPolicyAlways || created.Spec.Containers[0].ImagePullPolicy == "" {
			fail("pod %s came back without its defaults", name)
		}
		if memory := created.Spec.Containers[0].Resources.Requests.Memory().String(); memory != "64Mi" {
			fail("pod %s came back with a memory request of %s", name, memory)
		}
		expect(watcher, watch.Added, name)
		fmt.Println("created", name)
	}
	_, err = pods.Create(ctx, pod("one"), metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		fail("creating one twice: %v", err)
	}

	list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: "app=go-client"})
	check(err, "list")
	if len(list.Items) != 2 || list.Items[0].Name != "one" || list.Items[1].Name != "two" {
		fail("listed %d pods", len(list.Items))
	}
	fmt.Println("listed", len(list.Items))

	patch := []byte(`{"metadata":{"labels":{"patched":"yes"}}}`)
	_, err = pods.Patch(ctx, "one", types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	check(err, "patch")
	expect(watcher, watch.Modified, "one")

	stale := list.Items[0].DeepCopy()
	stale.Labels["stale"] = "yes"
	if _, err = pods.Update(ctx, stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		fail("updating with an old resourceVersion: %v", err)
	}
	fmt.Println("conflict")

	informed(ctx, client, namespace)

	zero := int64(0)
	for _, name := range []string{"one", "two"} {
		check(pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &zero}), "delete "+name)
		expectDeleted(watcher, name)
		fmt.Println("deleted", name)
	}
	if _, err = pods.Get(ctx, "one", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		fail("getting a deleted pod: %v", err)
	}
}

// informed waits until a shared informer has both pods.
func informed(ctx context.Context, client kubernetes.Interface, namespace string) {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	informer := factory.Core().V1().Pods().Informer()
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		fail("the informer does not sync")
	}
	if count := len(informer.GetStore().ListKeys()); count != 2 {
		fail("the informer holds %d pods", count)
	}
	fmt.Println("informed")
}

func expect(watcher watch.Interface, kind watch.EventType, name string) {
	event, pod := next(watcher)
	if event.Type != kind || pod.Name != name {
		fail("watched %s %s, expected %s %s", event.Type, pod.Name, kind, name)
	}
}

// expectDeleted lets the mark of the deletion pass, which Kubernetes writes before it removes a pod.
func expectDeleted(watcher watch.Interface, name string) {
	event, pod := next(watcher)
	if event.Type == watch.Modified && pod.Name == name && pod.DeletionTimestamp != nil {
		event, pod = next(watcher)
	}
	if event.Type != watch.Deleted || pod.Name != name {
		fail("watched %s %s, expected the end of %s", event.Type, pod.Name, name)
	}
}

func next(watcher watch.Interface) (watch.Event, *corev1.Pod) {
	select {
	case event := <-watcher.ResultChan():
		pod, ok := event.Object.(*corev1.Pod)
		if !ok {
			fail("watched %s %#v", event.Type, event.Object)
		}
		return event, pod
	case <-time.After(10 * time.Second):
		fail("no event within 10 s")
	}
	panic("unreachable")
}

func pod(name string) *corev1.Pod {
	container := corev1.Container{Name: "main", Image: "registry.example/pause:1"}
	container.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "go-client"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{container}},
	}
}

// answers counts the content types of what came back.
type answers struct {
	inner  http.RoundTripper
	lock   sync.Mutex
	counts map[string]int
}

func (a *answers) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := a.inner.RoundTrip(request)
	if err == nil && response.StatusCode < 300 {
		a.lock.Lock()
		a.counts[response.Header.Get("Content-Type")]++
		a.lock.Unlock()
	}
	return response, err
}

func connect() (kubernetes.Interface, *answers) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	check(err, "read the kubeconfig")
	config.ContentType = protobuf
	config.AcceptContentTypes = protobuf
	counted := &answers{counts: map[string]int{}}
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper {
		counted.inner = inner
		return counted
	})
	client, err := kubernetes.NewForConfig(config)
	check(err, "make a client")
	return client, counted
}

func check(err error, step string) {
	if err != nil {
		fail("%s: %v", step, err)
	}
}

func fail(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", arguments...)
	os.Exit(1)
}
