package train

import "github.com/privgrad/privgrad/internal/rundir"

// FeatureProgress is a Progress that is also told how far work on features is: each of 1 to 100 percent, for any number of records.
type FeatureProgress interface {
	Progress
	Features(work string, percent int)
}

func (o *Options) featureProgress(work string) func(percent int) {
	p, ok := o.Progress.(FeatureProgress)
	if !ok {
		return nil
	}
	return func(percent int) { p.Features(work, percent) }
}

// keepFront writes the front end beside the model, unless it is a function, or goes on with the one there: another version might make another.
func (r *run) keepFront() error {
	p, dir := r.plan, r.dir()
	switch {
	case p.Imported != nil:
		return p.Imported.Keep(dir)
	case p.Front == nil || p.Front.IsFunc():
		return nil
	case r.options.Features != nil || !dir.Has(rundir.Features):
		return dir.WriteTo(rundir.Features, p.Front.Write)
	}
	stored, digest, err := dir.ReadFront(p.Front.Spec())
	if err == nil && digest != p.FrontDigest {
		p.Front, p.FrontDigest = stored, digest // of another version; restore says whether the run began with it
	}
	return err
}
