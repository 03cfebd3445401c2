package budget

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"

	"github.com/privgrad/privgrad/accountant/ledger"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/usage"
)

// A Receipt is what a run directory keeps of its payment.
type Receipt struct {
	Budget string `json:"budget"` // identity of the file
	Entry  int    `json:"entry"`  // from 1
	Digest string `json:"digest"` // behind the entry, of it and all before
	Run    string `json:"run"`
	Place  string `json:"place"` // where the directory is, as in processes.jsonl

	cost  *Cost // nil where nothing was paid now
	again bool
}

// Notice tells the user what was paid.
func (r *Receipt) Notice() string {
	if r.cost == nil {
		return "the budget has paid for this run before"
	}
	if r.again {
		return fmt.Sprintf("this run is not where it was paid for, or has lost its %s: it has paid again, as the original may go on, too; budget %s", rundir.Budget, r.cost)
	}
	return "budget " + r.cost.String()
}

// ReadReceipt is that of a run directory; nil where there is none.
func ReadReceipt(dir rundir.Dir) (*Receipt, error) {
	text, err := os.ReadFile(dir.Path(rundir.Budget))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var r Receipt
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err == nil && (r.Entry < 1 || r.Run == "") {
		err = errors.New("it names no entry")
	}
	if err != nil {
		return nil, usage.Errorf("%s cannot be read (%w): restore it; without it, the run pays again", dir.Path(rundir.Budget), usage.Cause(err))
	}
	return &r, nil
}

// Keep writes a new receipt into the directory of its run.
func (r *Receipt) Keep(dir rundir.Dir) (err error) {
	if r.cost == nil {
		return nil
	}
	if r.Place, err = dir.Whereabouts(r.Digest); err != nil {
		return err
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return dir.Write(rundir.Budget, append(b, '\n'))
}

// here says whether the directory is where it was when it was paid for.
func (r *Receipt) here(dir rundir.Dir) bool {
	place, err := dir.Whereabouts(r.Digest)
	return err == nil && place == r.Place
}

// Has says whether the file still has what a receipt names, and all that stood before: an older copy does not.
func (f *File) Has(name string, r *Receipt) error {
	if f.ID != r.Budget {
		return usage.Errorf("%s is another budget than the one that paid for the run (%s): give that one by --budget", name, r.Budget)
	}
	links, err := f.chain()
	if err != nil {
		return err
	}
	if r.Entry >= len(links) || links[r.Entry] != r.Digest {
		return usage.Errorf("budget %s has lost entry %d, by which it paid for this run, or another entry before it: an older copy has taken its place. Restore the newest one; what is lost stays spent, and nothing may be paid from this one", name, r.Entry)
	}
	return nil
}

// Pay pays for the run of a directory from the budget of its settings, before the run begins: for all of its schedule, and once.
// A run that goes on shows its receipt; it pays again where the directory is another than then, as the other one may go on, too.
// There is no receipt where nothing is to be paid. dir is "" where the directory is not there yet, label names the run for
// people, and run is the identity of a new one; "" makes one.
func Pay(p *plan.Plan, dir rundir.Dir, label, run string) (*Receipt, error) {
	return PayBill(p.Config.Budget, func() (*Bill, error) { return Of(p) }, dir, label, run)
}

// PayBill is Pay from a file, for what a bill says.
func PayBill(name string, of func() (*Bill, error), dir rundir.Dir, label, run string) (*Receipt, error) {
	if dir != "" && dir.IsSlice() { // for which its run has paid
		return nil, nil
	}
	var kept *Receipt
	var err error
	if dir != "" {
		if kept, err = ReadReceipt(dir); err != nil {
			return nil, err
		}
	}
	if name == "" {
		if kept != nil {
			return nil, usage.Errorf("the run in %s is paid for by a budget: name its file by --budget", dir)
		}
		return nil, nil
	}
	bill, err := of()
	if err != nil {
		return nil, err
	}
	again := kept != nil
	if dir != "" && dir.Has(rundir.Ledger) {
		_, h, err := ledger.Read(dir.Path(rundir.Ledger))
		if err != nil {
			return nil, usage.Wrap(err)
		}
		run, again = h.RunID, true
	} else if kept != nil {
		run = kept.Run // which was killed before it had a ledger
	} else if run == "" {
		if run, err = ledger.NewRunID(); err != nil {
			return nil, err
		}
	}
	receipt := kept
	err = change(name, func(f *File) error {
		if kept != nil {
			if err := f.Has(name, kept); err != nil || kept.Run == run && kept.here(dir) {
				return err
			}
		}
		cost, err := f.pay(name, bill, func(e *Entry) {
			e.Run, e.Name, e.Again, e.Paid = run, label, again, now()
			e.sign()
		})
		if err != nil {
			return err
		}
		receipt = &Receipt{Budget: f.ID, Entry: len(f.Entries), Digest: f.Digest, Run: run, cost: cost, again: again}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return receipt, nil
}

// sign notes who pays, as the system has it.
func (e *Entry) sign() {
	if u, err := user.Current(); err == nil {
		e.User = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		e.Host = host
	}
}

// Ask says what a new run would cost, and pays nothing. It is nil without a budget.
func Ask(p *plan.Plan) (*Cost, error) {
	return AskBill(p.Config.Budget, func() (*Bill, error) { return Of(p) })
}

// AskBill is Ask of a file, for what a bill says.
func AskBill(name string, of func() (*Bill, error)) (*Cost, error) {
	if name == "" {
		return nil, nil
	}
	bill, err := of()
	if err != nil {
		return nil, err
	}
	f, err := Read(name)
	if err != nil {
		return nil, err
	}
	return f.pay(name, bill, func(*Entry) {})
}

// CheckRun says whether a file has paid for the run in a directory, as both have it; else why not.
func (f *File) CheckRun(name string, dir rundir.Dir) error {
	r, err := ReadReceipt(dir)
	if err != nil {
		return err
	}
	if r == nil {
		return usage.Errorf("%s has no %s: no budget has paid for it, or the file is lost", dir, rundir.Budget)
	}
	if err := f.Has(name, r); err != nil {
		return err
	}
	e := f.Entries[r.Entry-1]
	if e.Run != r.Run {
		return usage.Errorf("entry %d of %s is of another run than %s", r.Entry, name, dir)
	}
	settings := rundir.Begun
	if dir.Has(rundir.Tuning) { // which was paid for as a whole
		settings = rundir.Tuning
	}
	if got, err := dir.Digest(settings); err == nil && got != e.Settings {
		return usage.Errorf("entry %d of %s has paid for other settings than %s of %s has", r.Entry, name, settings, dir)
	}
	return nil
}
