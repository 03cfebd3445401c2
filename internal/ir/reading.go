package ir

// Reading is what a network reads of a value x: x·Scale + Shift. A byte b stands for b/255.
type Reading struct {
	Scale float32 `json:"scale"`
	Shift float32 `json:"shift"`
}

// OfValues and OfBytes gather a table's values, or its bytes, as the network reads them.
func (r Reading) OfValues() Gather {
	if r == (Reading{Scale: 1}) {
		return nil
	}
	return Gather{ScaledBy(r.Scale, r.Shift)}
}

func (r Reading) OfBytes() Gather { return Gather{ScaledBy(r.Scale/255, r.Shift)} }
