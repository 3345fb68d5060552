module rkube.test/operator-2021

go 1.16

require (
	github.com/modern-go/reflect2 v1.0.2 // indirect
	k8s.io/api v0.21.4
	k8s.io/apiextensions-apiserver v0.21.4
	k8s.io/apimachinery v0.21.4
	k8s.io/client-go v0.21.4
	sigs.k8s.io/controller-runtime v0.9.7
)
