package lower

import (
	"fmt"
	"strings"

	"github.com/privgrad/privgrad/internal/onnx/file"
)

// A Refusal says why a node cannot be trained, and what to do.
type Refusal struct {
	Node   string // its name, else its first output; empty: the file as a whole
	Op     string // its kind
	Reason string
	Do     string
}

func (r *Refusal) Error() string {
	if r.Node == "" {
		return r.Reason + "; " + r.Do
	}
	return fmt.Sprintf("node %s (%s) %s; %s", r.Node, r.Op, r.Reason, r.Do)
}

// Refusals are all that were found in a file, in the order of its nodes.
type Refusals []*Refusal

func (all Refusals) Error() string {
	if len(all) == 1 {
		return "the network cannot be trained: " + all[0].Error()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "the network cannot be trained, for %d reasons:", len(all))
	for _, r := range all {
		fmt.Fprintf(&b, "\n  %v", r)
	}
	return b.String()
}

// nameOf is how a node is called in messages.
func nameOf(n *file.Node) string {
	if n.Name != "" {
		return n.Name
	}
	for _, out := range n.Outputs {
		if out != "" {
			return out
		}
	}
	return "without a name"
}

// refuse makes a refusal of a node: what is wrong, as words behind its name, and what to do.
func refuse(n *file.Node, do, reason string, args ...any) *Refusal {
	return &Refusal{Node: nameOf(n), Op: kindOf(n), Reason: fmt.Sprintf(reason, args...), Do: do}
}

// kindOf is a node's kind, behind its domain if that is not the standard one.
func kindOf(n *file.Node) string {
	if n.Domain != "" && n.Domain != "ai.onnx" {
		return n.Domain + "." + n.Kind
	}
	return n.Kind
}

// What to do, where several nodes share it.
const (
	exportAgain  = "export the network again"
	keepRecords  = "keep records along axis 0 from the input to the output, each by itself"
	freezeIt     = "leave it out, or freeze it and all before it with --freeze"
	nameConstant = "make it an initializer of the file"
)
