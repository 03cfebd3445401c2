package tfevents

import (
	"bytes"
	"encoding/hex"
	"testing"
)

const recorded = "0f000000000000006d532b091a0d627261696e2e4576656e743a32fc9851293c00000000000000c8b7a352090000000000c0" +
	"724010ac022a2e0a140a0d746573742f6163637572616379150000403f0a160a0f707269766163792f657073696c6f6e1500" +
	"0020408f9fad67"

// The bytes come from TensorBoard 2.21's own RecordWriter, of the same events.
func TestAgainstTensorBoard(t *testing.T) {
	got := append(Start(), Step(300, []Scalar{{"test/accuracy", 0.75}, {"privacy/epsilon", 2.5}})...)
	want, err := hex.DecodeString(recorded)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("encoded\n%x, want\n%x", got, want)
	}
}
