package lower

import (
	"fmt"
	"strings"

	"github.com/privgrad/privgrad/internal/onnx/file"
	"github.com/privgrad/privgrad/internal/usage"
)

// A Refusal says why a node cannot be trained, and what to do.
type Refusal struct {
	Node   string // its name, else its first output; empty: the file as a whole
	Op     string // its kind
	Reason string
	Do     string

	advice string // Do before it names a node
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
	lines := all.Lines()
	if len(lines) == 1 {
		return "the network cannot be trained: " + lines[0]
	}
	for i := range lines { // numbered: messages are shown on one line
		lines[i] = fmt.Sprintf("(%d) %s", i+1, lines[i])
	}
	return fmt.Sprintf("the network cannot be trained, for %d reasons: %s", len(lines), strings.Join(lines, " "))
}

// mostNamed is how many nodes a line names.
const mostNamed = 3

// Lines says each refusal once: nodes of one kind that are refused for the same reason share a line.
func (all Refusals) Lines() []string {
	type key struct{ op, reason, advice string }
	var order []key
	alike := map[key]Refusals{}
	for _, r := range all {
		k := key{r.Op, r.Reason, r.advice}
		if r.Node == "" || r.advice == "" {
			k.advice = r.Do
		}
		if alike[k] == nil {
			order = append(order, k)
		}
		alike[k] = append(alike[k], r)
	}
	var lines []string
	for _, k := range order {
		same := alike[k]
		last := same[len(same)-1] // what is frozen up to the last has the others in it
		if len(same) == 1 || last.Node == "" {
			lines = append(lines, last.Error())
			continue
		}
		var names []string
		for _, r := range same[:min(len(same), mostNamed)] {
			names = append(names, r.Node)
		}
		if len(same) > mostNamed {
			names = append(names, "…")
		}
		lines = append(lines, fmt.Sprintf("%d %s nodes (%s): each %s; %s", len(same), k.op, strings.Join(names, ", "), k.reason, last.Do))
	}
	return lines
}

// name writes the node to freeze into what to do.
func (r *Refusal) name(node string) {
	r.Do = strings.ReplaceAll(r.advice, theNode, usage.Quote(node))
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
	r := &Refusal{Node: nameOf(n), Op: kindOf(n), Reason: fmt.Sprintf(reason, args...), advice: do}
	r.name(r.Node)
	return r
}

// kindOf is a node's kind, behind its domain if that is not the standard one.
func kindOf(n *file.Node) string {
	if n.Domain != "" && n.Domain != "ai.onnx" {
		return n.Domain + "." + n.Kind
	}
	return n.Kind
}

// What to do, where several nodes share it. theNode stands for the node that --freeze can name.
const (
	theNode      = "<NODE>"
	exportAgain  = "export the network again"
	exportKept   = "export net.eval() with training=TrainingMode.PRESERVE, do_constant_folding=False"
	keepRecords  = "keep records along axis 0 from the input to the output, each by itself"
	orFreeze     = ", or, if the file's weights are public, freeze it and all before it: --freeze " + theNode + " --weights-are-public"
	freezeIt     = "leave it out" + orFreeze
	nameConstant = "make it an initializer of the file"
)
