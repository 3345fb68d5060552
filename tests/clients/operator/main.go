// An operator and its test environment, as authors write them with controller-runtime: a control plane from
// KUBEBUILDER_ASSETS, a definition, webhooks, a reconciler, users. Says what it has seen, a line each, and ends with an
// error at the first thing that is not as it should be.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

const patience = 60 * time.Second

func main() {
	log.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	// With `wait`, an environment that is there until somebody ends this process.
	if err := run(len(os.Args) > 1 && os.Args[1] == "wait"); err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

func run(wait bool) (failure error) {
	environment := &envtest.Environment{
		CRDs: definitions(),
		WebhookInstallOptions: envtest.WebhookInstallOptions{
			MutatingWebhooks:   []*admissionv1.MutatingWebhookConfiguration{mutating()},
			ValidatingWebhooks: []*admissionv1.ValidatingWebhookConfiguration{validating()},
		},
	}
	started := time.Now()
	config, err := environment.Start()
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	say("started in %d ms", time.Since(started).Milliseconds())
	defer func() {
		stopping := time.Now()
		if err := environment.Stop(); err != nil && failure == nil {
			failure = fmt.Errorf("stop: %w", err)
		}
		say("stopped in %d ms", time.Since(stopping).Milliseconds())
	}()
	if wait {
		ended := make(chan os.Signal, 1)
		signal.Notify(ended, syscall.SIGTERM)
		<-ended
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*patience)
	defer cancel()
	steps := []func(context.Context, *envtest.Environment, *rest.Config) error{operate, users, namespaces}
	for _, step := range steps {
		if err := step(ctx, environment, config); err != nil {
			return err
		}
	}
	return nil
}

func say(format string, values ...any) {
	fmt.Printf(format+"\n", values...)
}

// Somebody with a Role may do what its binding says, and no more.
func users(ctx context.Context, environment *envtest.Environment, config *rest.Config) error {
	admin, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	user, err := environment.AddUser(envtest.User{Name: "jane", Groups: []string{"readers"}}, nil)
	if err != nil {
		return err
	}
	jane, err := client.New(user.Config(), client.Options{})
	if err != nil {
		return err
	}
	maps := &corev1.ConfigMapList{}
	if err := jane.List(ctx, maps, client.InNamespace("default")); !apierrors.IsForbidden(err) {
		return fmt.Errorf("a user without a role: %v", err)
	}
	say("%s", strings.ReplaceAll(jane.List(ctx, maps, client.InNamespace("default")).Error(), "\n", " "))
	meta := metav1.ObjectMeta{Name: "reader", Namespace: "default"}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list"},
	}}}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: "reader"},
		Subjects:   []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "Group", Name: "readers"}},
	}
	for _, object := range []client.Object{role, binding} {
		if err := admin.Create(ctx, object); err != nil {
			return err
		}
	}
	if err := eventually(func() error { return jane.List(ctx, maps, client.InNamespace("default")) }); err != nil {
		return err
	}
	map1 := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "hers", Namespace: "default"}}
	if err := jane.Create(ctx, map1); !apierrors.IsForbidden(err) {
		return fmt.Errorf("a reader who writes: %v", err)
	}
	say("a user may do what her role says")
	return nil
}

// Namespaces go; nobody but the test has written into them.
func namespaces(ctx context.Context, _ *envtest.Environment, config *rest.Config) error {
	admin, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "brief"}}
	map1 := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "own", Namespace: "brief"}}
	for _, object := range []client.Object{namespace, map1} {
		if err := admin.Create(ctx, object); err != nil {
			return err
		}
	}
	accounts, maps := &corev1.ServiceAccountList{}, &corev1.ConfigMapList{}
	if err := admin.List(ctx, accounts, client.InNamespace("brief")); err != nil || len(accounts.Items) != 0 {
		return fmt.Errorf("accounts that nobody made: %v, %v", accounts.Items, err)
	}
	if err := admin.Delete(ctx, namespace); err != nil {
		return err
	}
	if err := admin.List(ctx, maps, client.InNamespace("brief")); err != nil || len(maps.Items) != 1 {
		return fmt.Errorf("a namespace is left alone for a while: %v, %v", maps.Items, err)
	}
	err = eventually(func() error {
		if err := admin.Get(ctx, client.ObjectKeyFromObject(namespace), namespace); !apierrors.IsNotFound(err) {
			return fmt.Errorf("still there: %v, %v", namespace.Status, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	say("a namespace goes with what is in it")
	return nil
}

func eventually(attempt func() error) error {
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = attempt(); err == nil {
			return nil
		}
	}
	return err
}
