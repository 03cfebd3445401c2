package engine

import (
	"encoding/json"
	"fmt"

	"github.com/privgrad/privgrad/dpoptim"
)

// SpentKeeper keeps where a filter stands for a method without a state of its own.
type SpentKeeper struct{}

// Save is of dpoptim.Keeper, like Restore.
func (SpentKeeper) Save(spent dpoptim.Spent) ([]byte, error) { return json.Marshal(spent) }

// Restore reads what Save wrote.
func (SpentKeeper) Restore(state []byte) (spent dpoptim.Spent, err error) {
	if err := json.Unmarshal(state, &spent); err != nil {
		return spent, fmt.Errorf("budget cannot be read: %w", err)
	}
	return spent, nil
}
