package config

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/setting"
	"github.com/privgrad/privgrad/internal/usage"
)

// PrivacyUnit says what a guarantee protects: one record, or all records of one user.
type PrivacyUnit struct {
	Unit           string `yaml:"unit,omitempty"`  // "", or userPrefix and a column, or OfSource
	Users          string `yaml:"users,omitempty"` // a file
	RecordsPerUser int    `yaml:"records_per_user,omitempty"`
}

// userPrefix begins a unit that is a user, before the column that names users.
const userPrefix = "user:"

// OfSource is the unit of a program's own data source that says itself whose its records are (datasets.Split.Users).
const OfSource = "user"

// defaultPerUser is how many records one user may add, if nobody says otherwise.
const defaultPerUser = 8

// unitRows are the settings of the unit.
var unitRows = []setting.Row{
	{Key: "unit", Group: onPrivacy, Arg: "user:COLUMN", Help: "csv: protect all records of one user together; the column says whose a record is (default one record)"},
	{Key: "users", Group: onPrivacy, Arg: "FILE", Help: "images and arrays: the same, by a file with the user of each training record, a line each (dir: CLASS/FILE,USER)"},
	{Key: "records_per_user", Group: onPrivacy, Arg: "K", Limit: setting.Within(0, datasets.MostOfUser, "1 to %d", datasets.MostOfUser),
		Help: "records of one user that may take part, a public number (default 8); the others are left out by lot"},
}

// ByUser says whether users are the unit.
func (u *PrivacyUnit) ByUser() bool { return u.Unit != "" || u.Users != "" }

// UnitRows is how many rows of the table one unit has.
func (u *PrivacyUnit) UnitRows() int {
	switch {
	case !u.ByUser():
		return 1
	case u.RecordsPerUser == 0:
		return defaultPerUser
	}
	return u.RecordsPerUser
}

// UserColumn is the column that says whose a record is; "" where no table has one.
func (u *PrivacyUnit) UserColumn() string { return strings.TrimPrefix(u.Unit, userPrefix) }

// Words are for results and messages.
func (u *PrivacyUnit) Words() string {
	if u.ByUser() {
		return accountant.OneUser
	}
	return "one record"
}

// Identity tells units apart: what one user is follows from the column or the file that says whose a record is.
func (u *PrivacyUnit) Identity() string {
	switch {
	case u.Unit != "":
		return fmt.Sprintf("%s (unit %s)", u.Words(), u.Unit)
	case u.Users != "":
		return fmt.Sprintf("%s (users %s)", u.Words(), filepath.Base(u.Users))
	}
	return u.Words()
}

// checkUnit finds settings that do not go with the unit, and fills in what was left open.
func (c *Config) checkUnit() error {
	table := strings.HasPrefix(c.Data, "csv:")
	switch column, ok := strings.CutPrefix(c.Unit, userPrefix); {
	case !c.ByUser() && c.RecordsPerUser > 0:
		return usage.Errorf("records-per-user %d: the unit is one record; add --unit user:COLUMN or --users FILE, or leave it out", c.RecordsPerUser)
	case !c.ByUser():
		return nil
	case c.Unit != "" && c.Unit != OfSource && (!ok || column == ""):
		return usage.Errorf("unit %s: write user: and a column of the table, such as user:patient; the unit is one record where it is left out", c.Unit)
	case c.Unit != "" && c.Users != "":
		return usage.Errorf("unit %s and users %s both say whose a record is: give one", c.Unit, c.Users)
	case c.Unit != "" && (c.Unit == OfSource) == table:
		return usage.Errorf("unit %s, data %s: of a table give --unit user:COLUMN, and of other data --users FILE", c.Unit, c.Data)
	case c.Users != "" && table:
		return usage.Errorf("users %s: a table has its users in a column; give --unit user:COLUMN", c.Users)
	case strings.HasPrefix(c.Data, "shards:"):
		return usage.Errorf("users %s: shards do not say which of them has which user; give the data from which the shards were made", c.Users)
	case c.Folds > 0:
		return usage.Errorf("folds %d: folds hold out records, and a user may have records in each; leave out --folds, or --unit", c.Folds)
	case c.PublicN != nil && *c.PublicN > math.MaxInt32/c.UnitRows():
		return usage.Errorf("public-n %d, records-per-user %d: a table has %d rows at most, and each user has as many rows as records that may take part; give a smaller --records-per-user", *c.PublicN, c.UnitRows(), math.MaxInt32)
	case len(c.Augment) > 0:
		return usage.Errorf("augment %s: the records of a user take the place of views; leave out --augment", strings.Join(c.Augment, ","))
	case c.TrainLossNoise != nil:
		return usage.Errorf("train-loss-noise %v: it bounds the losses of single records, and the unit is one user; leave it out", *c.TrainLossNoise)
	}
	c.RecordsPerUser = c.UnitRows()
	return nil
}
