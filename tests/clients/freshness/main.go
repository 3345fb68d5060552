// How fresh the cache of an operator is: writes an object and reads it from the cache, as reconcilers do, many times. Counts
// reads that do not show the write before them, and writes that conflict because of that.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func main() {
	log.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	if err := run(); err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

func run() error {
	rounds := 10_000
	if len(os.Args) > 1 {
		var err error
		if rounds, err = strconv.Atoi(os.Args[1]); err != nil {
			return err
		}
	}
	environment := &envtest.Environment{}
	config, err := environment.Start()
	if err != nil {
		return err
	}
	defer environment.Stop()
	// The client's own limit would hide what is to be seen.
	config.QPS = -1
	manager, err := ctrl.NewManager(config, ctrl.Options{Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { _ = manager.Start(ctx) }()
	return measure(ctx, manager.GetClient(), rounds)
}

func measure(ctx context.Context, cached client.Client, rounds int) error {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "counter", Namespace: "default"}}
	if err := cached.Create(ctx, object); err != nil {
		return err
	}
	key := client.ObjectKeyFromObject(object)
	for cached.Get(ctx, key, object) != nil {
		time.Sleep(time.Millisecond)
	}
	stale, conflicts := 0, 0
	started := time.Now()
	for round := 1; round <= rounds; {
		// A reconciler begins with what the cache has.
		if err := cached.Get(ctx, key, object); err != nil {
			return err
		}
		object.Data = map[string]string{"round": strconv.Itoa(round)}
		switch err := cached.Update(ctx, object); {
		case apierrors.IsConflict(err):
			conflicts++
			continue
		case err != nil:
			return err
		}
		read := &corev1.ConfigMap{}
		if err := cached.Get(ctx, key, read); err != nil {
			return err
		}
		if read.ResourceVersion != object.ResourceVersion {
			stale++
		}
		round++
	}
	elapsed := time.Since(started)
	fmt.Printf("%d writes in %d ms: %d stale reads, %d conflicts\n", rounds, elapsed.Milliseconds(), stale, conflicts)
	return nil
}
