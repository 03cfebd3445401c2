// Package client is what runs beside a record in local privacy: it turns the record's gradient into a report
// that anybody may see, and nothing else of the record leaves it. A server of package banco learns
// from reports alone.
package client

import (
	"errors"
	"slices"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim/banco"
	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/stream"
)

// Client holds a secret key, and no record. It is for one goroutine.
//
// Whatever gradients a record may have, the probability of its report differs by a factor of at most e^ε. A
// record that reports k times has spent kε (banco.Params.Cost): counting is the caller's.
type Client struct {
	params  banco.Params
	noise   mechanism.Local
	reports uint64
}

// New makes a client with a key of the operating system's.
func New(p banco.Params) (*Client, error) {
	key, err := stream.NewKey()
	if err != nil {
		return nil, err
	}
	return fromKey(p, key)
}

// NewSeeded is for simulations. It is NOT PRIVATE: whoever knows the seed subtracts the noise.
func NewSeeded(p banco.Params, seed uint64) (*Client, error) {
	return fromKey(p, stream.KeyFromSeed(seed, "local reports"))
}

func fromKey(p banco.Params, key stream.Key) (*Client, error) {
	if p.Dim() == 0 {
		return nil, errors.New("a client without settings: make them by banco.New")
	}
	s, err := stream.New(stream.AES256CTR, key)
	if err != nil {
		return nil, err
	}
	noise, err := mechanism.NewLocal(accountant.Pure{Epsilon: p.Epsilon() / 2}, p.Bound(), p.Radius(), p.Dim(), s, 0)
	return &Client{params: p, noise: noise}, err
}

// Report makes a report of a gradient, which it leaves alone. A gradient that is longer than the bound is
// scaled to it, and one with a number that is not finite counts as zero: what cannot be computed is not told.
func (c *Client) Report(gradient []float64) ([]float64, error) {
	report := slices.Clone(gradient)
	c.reports++
	return report, c.noise.Report(report, c.reports)
}

// Reports is how many were made. Of one record, they cost banco.Params.Cost of as many.
func (c *Client) Reports() int { return int(c.reports) }
