package cli

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// slowWriter says when a write begins, and takes its time.
type slowWriter struct {
	begun chan struct{}
	text  atomic.Value
}

func (w *slowWriter) Write(p []byte) (int, error) {
	close(w.begun)
	time.Sleep(20 * time.Millisecond)
	w.text.Store(string(p))
	return len(p), nil
}

// The notice of an interrupt stands before what the command says at its end.
func TestReleaseWaitsForTheNotice(t *testing.T) {
	w := &slowWriter{begun: make(chan struct{})}
	ctx, interrupt := context.WithCancel(t.Context())
	cmd := &cobra.Command{}
	cmd.Flags().String("progress", "off", "")
	cmd.Flags().String("log-format", "text", "")
	cmd.SetErr(w)
	cmd.SetContext(ctx)
	_, con, err := (&Call{Command: cmd}).Interruptible("finishing")
	if err != nil {
		t.Fatal(err)
	}
	interrupt()
	<-w.begun
	con.Release()
	if said, _ := w.text.Load().(string); !strings.Contains(said, "interrupted: finishing") {
		t.Errorf("released before the notice was written: %q", said)
	}
	con.Release() // twice does no harm
}
