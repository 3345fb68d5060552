// Command streams speaks to a server of streams with client-go: commands and forwarded ports, over SPDY and over WebSockets.
//
//	streams exec spdy|websocket URL          stdin is the command's; exits with its code
//	streams forward spdy|websocket URL PORT  sends stdin to the port, and prints what comes back, for ten connections at once
//
// The token is in TOKEN. Certificates are not verified: this is a test's own server.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"

	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/util/exec"
)

const connections = 10

func main() {
	if len(os.Args) < 4 {
		fail(errors.New("usage: streams exec|forward spdy|websocket URL [PORT]"))
	}
	location, err := url.Parse(os.Args[3])
	if err != nil {
		fail(err)
	}
	config := &rest.Config{
		Host:            location.Scheme + "://" + location.Host,
		BearerToken:     os.Getenv("TOKEN"),
		TLSClientConfig: rest.TLSClientConfig{Insecure: true},
	}
	switch os.Args[1] {
	case "exec":
		err = runCommand(config, os.Args[2], location)
	case "forward":
		err = forward(config, os.Args[2], location, os.Args[4])
	default:
		err = fmt.Errorf("%q is nothing that can be done", os.Args[1])
	}
	var code exec.CodeExitError
	if errors.As(err, &code) {
		os.Exit(code.Code)
	}
	if err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "error:", err)
	os.Exit(99)
}

func runCommand(config *rest.Config, way string, location *url.URL) error {
	var executor remotecommand.Executor
	var err error
	if way == "spdy" {
		executor, err = remotecommand.NewSPDYExecutor(config, http.MethodPost, location)
	} else {
		executor, err = remotecommand.NewWebSocketExecutor(config, http.MethodGet, location.String())
	}
	if err != nil {
		return err
	}
	options := remotecommand.StreamOptions{Stdout: os.Stdout}
	if location.Query().Get("input") == "1" || location.Query().Get("stdin") == "true" {
		options.Stdin = os.Stdin
	}
	if location.Query().Get("tty") == "1" || location.Query().Get("tty") == "true" {
		options.Tty = true
		options.TerminalSizeQueue = &oneSize{}
	} else {
		options.Stderr = os.Stderr
	}
	return executor.StreamWithContext(context.Background(), options)
}

// oneSize is a terminal that never changes.
type oneSize struct{ told bool }

func (size *oneSize) Next() *remotecommand.TerminalSize {
	if size.told {
		select {}
	}
	size.told = true
	return &remotecommand.TerminalSize{Width: 123, Height: 45}
}

func forward(config *rest.Config, way string, location *url.URL, port string) error {
	var dialer httpstream.Dialer
	if way == "spdy" {
		transport, upgrader, err := spdy.RoundTripperFor(config)
		if err != nil {
			return err
		}
		dialer = spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, location)
	} else {
		tunnel, err := portforward.NewSPDYOverWebsocketDialer(location, config)
		if err != nil {
			return err
		}
		dialer = tunnel
	}
	stop, ready := make(chan struct{}), make(chan struct{})
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{"0:" + port}, stop, ready, io.Discard, os.Stderr)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- forwarder.ForwardPorts() }()
	select {
	case err := <-done:
		return err
	case <-ready:
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		return err
	}
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	answers := make([][]byte, connections)
	failures := make([]error, connections)
	for i := range connections {
		group.Go(func() { answers[i], failures[i] = ask(ports[0].Local, text) })
	}
	group.Wait()
	close(stop)
	if err := errors.Join(failures...); err != nil {
		return err
	}
	for i := range answers {
		if string(answers[i]) != string(answers[0]) {
			return fmt.Errorf("connection %d got %d bytes, the first one %d", i, len(answers[i]), len(answers[0]))
		}
	}
	_, err = os.Stdout.Write(answers[0])
	return err
}

// ask sends all, says that it is all, and reads what comes back.
func ask(port uint16, text []byte) ([]byte, error) {
	connection, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	go func() {
		connection.Write(text)
		connection.(*net.TCPConn).CloseWrite()
	}()
	return io.ReadAll(connection)
}
