package reproduce

import (
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/privgrad/privgrad/dpoptim/l2p"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/train"
)

// A Protection is the protector of a figure or of a run.
type Protection struct {
	*l2p.Protector
	Digest string // of its card and weights
}

// protect finds the protector of a figure that has one.
func (e *Env) protect(f *Figure) error {
	name := e.Protector
	switch {
	case f.Protector == "" && name == "":
		return nil
	case f.Protector == "":
		return usage.Errorf("protector %s: %s is of no protector; leave it out", name, f.Name)
	case name == "":
		name = f.Protector
	}
	p, err := l2p.Find(name)
	if err != nil {
		var u *train.UsageError
		if errors.As(err, &u) {
			return err
		}
		return usage.Errorf("%w; another is chosen by --protector", err)
	}
	e.Learned = NewProtection(p)
	return nil
}

// NewProtection is of a protector that changes no more.
func NewProtection(p *l2p.Protector) *Protection {
	h := sha256.Sum256(fmt.Appendf(nil, "%+v %v %v", p.Card, p.Projector, p.Scheduler))
	return &Protection{p, fmt.Sprintf("%x", h[:8])}
}
