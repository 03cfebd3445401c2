package rundir

import (
	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/internal/usage"
)

// ReadFront reads the front end of a run, which must be the configured one, and its digest.
func (d Dir) ReadFront(want features.Spec) (_ *features.Front, digest string, err error) {
	path := d.Path(Features)
	f, err := d.open(Features)
	if err != nil {
		return nil, "", usage.Errorf("%w: the model reads records by that file: restore it; the figures of a run with a function of your own are in its %s", err, Result)
	}
	defer f.Close()
	front, err := features.Read(f)
	if err != nil {
		return nil, "", usage.Errorf("%s: %w; restore it, or start a new run in another directory", path, err)
	}
	if got := front.Spec(); got != want {
		return nil, "", usage.Errorf("%s holds features %s of other settings than %s: restore it, or start a new run in another directory", path, got.Kind, Config)
	}
	digest, err = front.Digest()
	return front, digest, err
}
