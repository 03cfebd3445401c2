package train

import (
	"errors"
	"io/fs"
	"os"

	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/nn"
)

// FeatureProgress is a Progress that is also told how far the features of the records are. The
// percentages are the same for any number of records.
type FeatureProgress interface {
	Progress
	Features(percent int)
}

func (o *Options) featureProgress() func(percent int) {
	if p, ok := o.Progress.(FeatureProgress); ok {
		return p.Features
	}
	return nil
}

// keepFront writes the front end with all its constants beside the model, or goes on with the
// one that is there: another version might make another. One of the user's own is not written.
func (r *run) keepFront() error {
	p, dir := r.plan, r.dir()
	if p.Front == nil || p.Front.IsFunc() {
		return nil
	}
	if r.options.Features != nil || !dir.Has(rundir.Features) {
		return dir.WriteTo(rundir.Features, p.Front.Write)
	}
	stored, digest, err := readFront(dir, p.Front.Spec())
	if err == nil && digest != p.FrontDigest {
		p.Front, p.FrontDigest = stored, digest // of another version; restore says whether the run began with it
	}
	return err
}

// readFront reads the front end of a run directory, which must be the configured one.
func readFront(dir rundir.Dir, want features.Spec) (_ *features.Front, digest string, err error) {
	path := dir.Path(rundir.Features)
	f, err := os.Open(path)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	front, err := features.Read(f)
	if err != nil {
		return nil, "", usage.Errorf("%s: %w; restore it, or start a new run in another directory", path, err)
	}
	if got := front.Spec(); got != want {
		return nil, "", usage.Errorf("%s holds features %s of other settings than %s: restore it, or start a new run in another directory", path, got.Kind, rundir.Config)
	}
	digest, err = front.Digest()
	return front, digest, err
}

// modelFacts are what a model's file says of what the model reads.
func (r *run) modelFacts() map[string]string {
	if r.plan.Front == nil {
		return nil
	}
	facts := map[string]string{"features": r.plan.Config.Features, rundir.FeaturesDigest: r.plan.FrontDigest}
	if !r.plan.Front.IsFunc() {
		facts["features_file"] = rundir.Features
	}
	return facts
}

// frontOf gives the front end, and its digest, by which a run's model reads a shape; nil where it has none.
func frontOf(dir rundir.Dir, c *plan.Config, shape [3]int) (front *features.Front, digest string, err error) {
	if c.Features == "" {
		return nil, "", nil
	}
	front, digest, err = readFront(dir, c.FrontSpec(shape))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", usage.Errorf("%s has no %s, by which its model reads records: restore it; the figures of a run with a function of your own are in its %s", dir, rundir.Features, rundir.Result)
	}
	return front, digest, err
}

// modelBehind reads a model that was trained behind a front end of a digest, which is empty where it had none.
func modelBehind(digest string, dir rundir.Dir, name string, n *nn.Network) ([]float32, error) {
	params, facts, err := rundir.ReadModel(dir.Path(name), n.Program)
	if err == nil && facts[rundir.FeaturesDigest] != digest {
		err = usage.Errorf("%s: %s is not the front end that %s was trained behind: restore it", dir, rundir.Features, name)
	}
	return params, err
}
