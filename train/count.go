package train

import (
	"cmp"
	"errors"

	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/engine"
	"github.com/privgrad/privgrad/internal/source"
)

// A run on files of a user's own begins with a noisy count of its usable records. It is paid for with the
// first step, by whose charge it is on the disk; of a budget, before all else.

// counts reports whether the count is to be made: before anything was charged. A process that died after
// the charge has spent it, and may have drawn its noise.
func (r *run) counts() bool {
	replays := r.plan.Config.Noise == dpoptim.Seeded && r.charge.Slot() == 0
	return r.plan.Count != nil && r.counted == nil && (replays || r.ledger.Charged() == 0)
}

// begin makes the count, and ends the run where it contradicts the public number: the step that has paid for it is not made.
func (r *run) begin() error {
	if err := r.count(); err != nil {
		return err
	}
	if r.stopped == "" {
		return nil
	}
	if _, err := r.charge.End(0, nil); err != nil {
		return err
	}
	if err := r.charge.Save(r.saveCheckpoint); err != nil {
		return err
	}
	return r.team.All(errors.New(r.stopped))
}

// count makes it, once it is paid for, and keeps it.
func (r *run) count() error {
	if err := r.charge.Admit(); err != nil {
		return err
	}
	all := []int64{r.data.Usable()}
	if r.team != nil {
		if err := r.team.SumInt64(all); err != nil {
			return err
		}
	}
	// A front end may leave some rows of a user unusable. One user moves all ranks' rows together by as many as a unit has,
	// at most, so the quotient by one; quotients of each rank it could move by more.
	counted, err := engine.Count(all[0]/int64(r.plan.Config.UnitRows())-r.canary.Partaking(), *r.plan.Count, r.noise, r.charge.Count())
	if err != nil {
		return err
	}
	if r.counted = &counted; r.options.counted != nil {
		r.counted = r.options.counted
	}
	if amiss := cmp.Or(r.plan.Few(*r.counted), r.plan.Many(*r.counted)); amiss != nil {
		r.stopped = amiss.Error() // in the same checkpoint as the count, so that no crash comes between
	}
	return r.saveCheckpoint()
}

// advise says how to check files of a user's own, before they are read and anything of their budget is spent.
func (r *run) advise() error {
	if command := source.CheckCommand(&r.plan.Config); command != "" && !r.plan.PublicRecords() && r.ledger.Charged() == 0 {
		r.options.Log.Info("training says nothing of records that are missing or broken; to check the files first: " + command)
	}
	return nil
}

// miss says that an earlier process has lost the count.
func (r *run) miss() {
	if r.plan.Count != nil && r.counted == nil && !r.counts() {
		r.options.Log.Warn("the count of usable records was lost with an earlier process, and no other is made")
	}
}
