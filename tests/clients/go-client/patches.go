package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
)

// A client that wants to change original into modified; current is what the server has meanwhile.
type patchQuestion struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Original   json.RawMessage `json:"original"`
	Modified   json.RawMessage `json:"modified"`
	Current    json.RawMessage `json:"current"`
}

// The patch that the client sends, and what becomes of the object; or why not.
type patchAnswer struct {
	Patch  json.RawMessage `json:"patch,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  string          `json:"error,omitempty"`
}

type patchAnswers struct {
	Unknown  bool        `json:"unknown,omitempty"`
	TwoWay   patchAnswer `json:"twoWay"`
	ThreeWay patchAnswer `json:"threeWay"`
}

// Reads questions from standard input and answers them, one JSON document each, as long as there are any.
func answerPatches() {
	questions, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var asked patchQuestion
		err := questions.Decode(&asked)
		if errors.Is(err, io.EOF) {
			return
		}
		check(err, "read a question")
		check(out.Encode(asked.answers()), "write the answers")
	}
}

func (asked patchQuestion) answers() patchAnswers {
	object, err := scheme.Scheme.New(schema.FromAPIVersionAndKind(asked.APIVersion, asked.Kind))
	if runtime.IsNotRegisteredError(err) {
		return patchAnswers{Unknown: true}
	}
	check(err, "make a "+asked.Kind)
	meta, err := strategicpatch.NewPatchMetaFromStruct(object)
	check(err, "look at a "+asked.Kind)
	twoWay, err := strategicpatch.CreateTwoWayMergePatch(asked.Original, asked.Modified, object)
	first := patched(asked.Original, twoWay, err, meta)
	threeWay, err := strategicpatch.CreateThreeWayMergePatch(asked.Original, asked.Modified, asked.Current, meta, true)
	return patchAnswers{TwoWay: first, ThreeWay: patched(asked.Current, threeWay, err, meta)}
}

func patched(document, patch []byte, err error, meta strategicpatch.LookupPatchMeta) patchAnswer {
	if err != nil {
		return patchAnswer{Error: fmt.Sprintf("no patch: %v", err)}
	}
	result, err := strategicpatch.StrategicMergePatchUsingLookupPatchMeta(document, patch, meta)
	if err != nil {
		return patchAnswer{Patch: patch, Error: err.Error()}
	}
	return patchAnswer{Patch: patch, Result: result}
}
