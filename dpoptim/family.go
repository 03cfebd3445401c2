package dpoptim

import "github.com/privgrad/privgrad/internal/setting"

// A Family is the settings that belong to one method, or to several that share them. It makes the methods. Every
// field of a configuration that is a Family adds its methods and settings to privgrad.
type Family interface {
	// Kinds are the methods, and Rows the settings. A setting of a family that was not chosen is refused.
	Kinds() []Kind
	Rows() []setting.Row
	// New makes a method with these settings, for a run.
	New(name string, run Settings) Method
}

// Kind is what is known of a named method before it is made.
type Kind struct {
	Name  string
	About string // a line of help
	Topic string // page of help that has its settings; empty: none
	// Reads are keys of settings that only some methods read. A setting of the family that no kind names is read by all
	// of them.
	Reads []string
	// ByBudget says that the budget decides how many steps there are.
	ByBudget bool
}

// Plain is the family of a method that has no settings of its own.
type Plain struct {
	Kind Kind
	Make func() Method
}

func (p Plain) Kinds() []Kind               { return []Kind{p.Kind} }
func (p Plain) Rows() []setting.Row         { return nil }
func (p Plain) New(string, Settings) Method { return p.Make() }

// A Settler is a method that fills in settings of its family, which a configuration keeps, so that it can be run again.
type Settler interface{ Settled() Family }
