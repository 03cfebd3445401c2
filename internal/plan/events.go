package plan

import (
	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
)

// Events are the releases of the committed schedule, whose composition the run's ε is. They
// are nil where budgets adapt, by the papers' arithmetic, which composes otherwise, and
// where nothing is charged.
func (p *Plan) Events() ([]accountant.Event, error) {
	asks := p.Declaration.Asks
	if p.spent == nil || p.Filtered() || len(asks) > 1 && asks[1].Batch == dpoptim.ByPapers {
		return nil, nil
	}
	if p.Declaration.Budget == dpoptim.Planned {
		return p.planned(p.Steps)
	}
	prices, err := p.prices(p.Sigma)
	if err != nil {
		return nil, err
	}
	if p.Method.Traits().Pure { // of all records, not of a batch
		return []accountant.Event{{Mechanisms: prices, Count: p.Uses(p.Steps)}}, nil
	}
	events := p.events(prices, p.Steps)
	events[0].Mechanisms = append(events[0].Mechanisms, p.price.WithSum...) // of every sum, which is asked for alone
	return append(events, p.price.Besides...), nil
}
