package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// markdown is the report for people: the outcome, figures, groups of steps, what was not run, failures at length.
func (r *report) markdown() []byte {
	var b bytes.Buffer
	outcome := "nothing failed"
	if n := len(r.of(failed)); n > 0 {
		outcome = fmt.Sprintf("%d failed", n)
	}
	if !r.Done {
		outcome += ", not complete"
	}
	fmt.Fprintf(&b, "# gpu-check: %s\n\n%s, %s, %s", outcome, cmp.Or(r.GPU, "no GPU"), r.Date, seconds(r.Seconds))
	if r.Budget > 0 {
		fmt.Fprintf(&b, " of a budget of %s", seconds(r.Budget))
	}
	fmt.Fprintf(&b, ". %d steps: %d passed, %d failed, %d not run.\n", len(r.Steps), len(r.of(passed)), len(r.of(failed)), len(r.of(skipped)))
	r.figures(&b)
	r.privacy(&b)
	r.rivals(&b)
	r.groups(&b)
	r.missing(&b)
	for i, s := range r.of(failed) {
		if i == atLength {
			fmt.Fprintf(&b, "\n## Failed, too\n\ngpu-check.json has their logs.\n\n")
		}
		if i >= atLength {
			fmt.Fprintf(&b, "- %s: %s\n", s.Name, s.Reason)
			continue
		}
		fmt.Fprintf(&b, "\n## Failed: %s\n\n", s.Name)
		block(&b, strings.TrimSpace(s.Command+"\n"+s.Reason+"\n"+s.Log))
	}
	r.facts(&b)
	return b.Bytes()
}

// atLength is how many failures are reported with their logs: without a GPU, all steps fail alike.
const atLength = 20

// of lists the steps of a status.
func (r *report) of(status string) (steps []*step) {
	for _, s := range r.Steps {
		if s.Status == status {
			steps = append(steps, s)
		}
	}
	return steps
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}

// block is text that Markdown leaves as it is, with a fence longer than any in it.
func block(b *bytes.Buffer, text string) {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	fmt.Fprintf(b, "%s\n%s\n%s\n", fence, text, fence)
}

// figures is the table of training steps. A share of the roofline is what the products would take at
// the GPU's full rate, divided by what the step took; a share of the model likewise.
func (r *report) figures(b *bytes.Buffer) {
	if len(r.Measurements) == 0 {
		return
	}
	fmt.Fprint(b, "\n## Training steps\n\n| model | batch | step | precision | ms | with a wait each | of the roofline | of the modelled time |\n|---|---|---|---|---|---|---|---|\n")
	for _, m := range r.Measurements {
		fmt.Fprintf(b, "| %s | %d | %s | %s | %.4g | %s | %s | %s |\n", m.Model, m.Batch, m.Mode, m.Precision, 1e3*m.Seconds, milliseconds(m.Waited),
			percent(m.Roofline, m.Seconds), percent(m.Modelled, m.Seconds))
	}
	fmt.Fprint(b, "\nMany steps are made between two waits for the GPU, and then, in the next column, one.\n"+
		"100% of the roofline is the speed of the products alone at the GPU's full rate. 100% of the modelled\n"+
		"time is the speed that bench/results/modelled gives, which is a model and no measurement. A dash: there is no model.\n")
}

func percent(bound *float64, took float64) string {
	if bound == nil {
		return "–"
	}
	return fmt.Sprintf("%.1f%%", 100**bound/took)
}

func milliseconds(seconds *float64) string {
	if seconds == nil {
		return "–"
	}
	return fmt.Sprintf("%.4g", 1e3**seconds)
}

// privacy is the table of what privacy costs beside the best plain step that anybody makes in the same precision.
func (r *report) privacy(b *bytes.Buffer) {
	head := "\n## Private steps over the best plain ones\n\n| model | batch | precision | private, ms | our plain, ms | best plain peer, ms | which | private ÷ best plain |\n|---|---|---|---|---|---|---|---|\n"
	for _, m := range r.Measurements {
		best := r.bestPlain(&m)
		if m.Mode != "private" || best == nil {
			continue
		}
		which := strings.TrimSpace(best.Peer + " " + best.Mode + " " + best.Form)
		fmt.Fprintf(b, "%s| %s | %d | %s | %.4g | %s | %.4g | %s | %.3g |\n", head, m.Model, m.Batch, m.Precision, 1e3*m.Seconds,
			milliseconds(r.ourPlain(&m)), 1e3*best.Seconds, which, m.Seconds/best.Seconds)
		head = ""
	}
	if head == "" {
		fmt.Fprint(b, "\nThe best plain peer is the fastest that was measured, in the same precision. Many steps between two waits.\n")
	}
}

// bestPlain is the fastest plain peer on the same workload; nil where none was measured.
func (r *report) bestPlain(m *measurement) (best *peerMeasurement) {
	for i := range r.Peers {
		p := &r.Peers[i]
		if !p.Private && p.Model == m.Model && p.Batch == m.Batch && p.Precision == m.Precision && (best == nil || p.Seconds < best.Seconds) {
			best = p
		}
	}
	return best
}

// ourPlain is privgrad's plain step on the same workload; nil where it was not measured.
func (r *report) ourPlain(m *measurement) *float64 {
	for _, o := range r.Measurements {
		if o.Mode == "plain" && o.Model == m.Model && o.Batch == m.Batch && o.Precision == m.Precision {
			return &o.Seconds
		}
	}
	return nil
}

// rivals is the table of peers.
func (r *report) rivals(b *bytes.Buffer) {
	if len(r.Peers) == 0 {
		return
	}
	fmt.Fprint(b, "\n## Beside peers\n\n| model | batch | precision | peer | ms | with a wait each | privgrad, ms | with a wait each | times faster | GPU memory | privgrad |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, p := range r.Peers {
		peer := strings.TrimSpace(p.Peer + " " + p.Mode + " " + p.Form)
		fmt.Fprintf(b, "| %s | %d | %s | %s | %.4g | %s | %.4g | %s | %.3g | %s | %s |\n", p.Model, p.Batch, p.Precision, peer,
			1e3*p.Seconds, milliseconds(p.Waited), 1e3*p.Ours, milliseconds(p.OursWaited), p.Seconds/p.Ours, size(p.Memory), size(p.OurMemory))
	}
	fmt.Fprint(b, "\nBoth sides multiply in the same precision. Memory is the most that the program took on the GPU.\n")
}

func size(bytes *int64) string {
	if bytes == nil {
		return "–"
	}
	return fmt.Sprintf("%.4g MiB", float64(*bytes)/(1<<20))
}

// groups is a line for each group of steps.
func (r *report) groups(b *bytes.Buffer) {
	fmt.Fprint(b, "\n## Steps\n\n| group | passed | failed | not run | seconds |\n|---|---|---|---|---|\n")
	var names []string
	counts, took := map[string]map[string]int{}, map[string]float64{}
	for _, s := range r.Steps {
		name, _, _ := strings.Cut(s.Name, "/")
		if counts[name] == nil {
			counts[name] = map[string]int{}
			names = append(names, name)
		}
		counts[name][s.Status]++
		took[name] += s.Seconds
	}
	for _, n := range names {
		fmt.Fprintf(b, "| %s | %d | %d | %d | %.1f |\n", n, counts[n][passed], counts[n][failed], counts[n][skipped], took[n])
	}
}

// missing lists what was not run, by its reason.
func (r *report) missing(b *bytes.Buffer) {
	var reasons []string
	names := map[string][]string{}
	for _, s := range r.of(skipped) {
		if !slices.Contains(reasons, s.Reason) {
			reasons = append(reasons, s.Reason)
		}
		names[s.Reason] = append(names[s.Reason], s.Name)
	}
	if len(reasons) == 0 {
		return
	}
	fmt.Fprint(b, "\n## Not run\n\n")
	for _, why := range reasons {
		fmt.Fprintf(b, "- %s:\n", why)
		for _, name := range names[why] {
			fmt.Fprintf(b, "  - %s\n", name)
		}
	}
}

// facts is what steps found beside times.
func (r *report) facts(b *bytes.Buffer) {
	for _, s := range r.Steps {
		group, _, _ := strings.Cut(s.Name, "/")
		if s.Result == nil || group == "bench" || group == "peers" {
			continue // in the tables; JSON has all of it
		}
		if text, err := json.MarshalIndent(short(s.Result), "", " "); err == nil {
			fmt.Fprintf(b, "\n## Result: %s\n\n", s.Name)
			block(b, string(text))
		}
	}
}

// short leaves out of privgrad info what is of no GPU.
func short(result any) any {
	raw, ok := result.(json.RawMessage)
	var all map[string]json.RawMessage
	if !ok || json.Unmarshal(raw, &all) != nil || all["gpus"] == nil {
		return result
	}
	for _, name := range []string{"devices", "models", "data_sets"} {
		delete(all, name)
	}
	return all
}
