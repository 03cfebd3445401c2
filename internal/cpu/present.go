package cpu

import "github.com/privgrad/privgrad/internal/device/host"

// present holds what rows of one table lose at the present parameters, as far as a
// gradient or a query has computed it: a search along a batch's gradient asks for that
// with every group of candidates. A net that nobody asks for losses keeps none. A row's
// loss has the same bits wherever it is computed.
type present struct {
	table *host.Table // of the last query at the parameters
	era   uint64      // how often the parameters or the table have changed
	rows  []struct {
		since uint64 // the era of loss
		loss  float64
	}
}

// note keeps what rows of a table lose, stride apart.
func (p *present) note(t *host.Table, rows []int32, losses []float64, stride int) {
	if t != p.table {
		return
	}
	for i, r := range rows {
		p.rows[r].since, p.rows[r].loss = p.era, losses[i*stride]
	}
}

// has says whether all rows' losses are kept, and from now on keeps those of their table.
func (p *present) has(t *host.Table, rows []int32) bool {
	if t != p.table {
		p.table, p.rows = t, grow(p.rows, t.Count)
		p.era++
		return false
	}
	for _, r := range rows {
		if p.rows[r].since != p.era {
			return false
		}
	}
	return true
}
