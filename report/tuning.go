package report

import (
	"slices"

	"github.com/privgrad/privgrad/accountant/ledger"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/price"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/tuned"
)

// readTuning reads the record of a tuned run, and has a plan of the run cost what the whole tuning does.
func (v *verification) readTuning(p *plan.Plan) {
	if v.record, v.unread = tuned.Read(v.dir); v.record == nil || p == nil {
		return
	}
	priced, err := v.record.Priced()
	if v.unread = err; err == nil {
		priced(p)
	}
}

// tuning computes the whole price of a tuned run again.
func (v *verification) tuning() {
	r := v.run
	var f faults
	f.add(v.unread != nil, "%v", v.unread)
	f.add(v.unread == nil && v.record == nil, "the run is a tuned one, and has no %s", rundir.Tuning)
	if v.record != nil && r.Epsilon != nil && r.Delta != nil {
		settings, err := v.dir.Digest(rundir.Begun)
		f.add(err != nil, "%s cannot be read: %v", rundir.Begun, err)
		f = append(f, v.record.Faults(r.Tuning, *r.Epsilon, settings, r.Events)...)
		f.add(*r.Delta != v.record.Delta || *r.Neighbouring != string(v.record.Neighbouring), "δ or the relation is another than that of %s", rundir.Tuning)
		v.Verification.Epsilon[*r.Accountant] = price.Finite(*r.Epsilon)
		for _, a := range v.record.Assumptions {
			f.add(!slices.Contains(r.Assumptions, a), "the assumptions leave out %s", a)
		}
	}
	state, header, err := ledger.Read(v.dir.Path(rundir.Charged))
	f.add(err != nil, "%v", err)
	if err == nil {
		digest, _ := v.dir.Digest(rundir.Tuning)
		f.add(state.Reserved < 1 || header.Fingerprint != digest, "%s has not charged the tuning of %s", rundir.Charged, rundir.Tuning)
	}
	v.check("tuning", "all trials and the choice among them cost what "+rundir.Result+" says", f)
}
