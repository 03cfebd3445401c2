package config

import (
	"math"
	"strings"
	"testing"
)

// All rows of the public number of users fit into a table.
func TestRowsOfUsersFit(t *testing.T) {
	for _, x := range []struct {
		publicN, perUser int
		want             string
	}{
		{math.MaxInt32 / 4, 4, ""}, {math.MaxInt32/4 + 1, 4, "public-n 536870912, records-per-user 4: "},
		{math.MaxInt32 / 8, 0, ""}, {math.MaxInt32/8 + 1, 0, "public-n 268435456, records-per-user 8: "},
		{math.MaxInt32, 1, ""}, {8_000_000_000, 1, "public-n 8000000000, records-per-user 1: "},
	} {
		c := tableConfig()
		c.Unit, c.PublicN, c.RecordsPerUser = "user:person", &x.publicN, x.perUser
		if err := c.Check(); (err == nil) != (x.want == "") || err != nil && !strings.HasPrefix(err.Error(), x.want) {
			t.Errorf("%d users of %d records: %v", x.publicN, x.perUser, err)
		}
	}
}
