package audit_test

import (
	"context"
	"fmt"
	"log"

	"github.com/privgrad/privgrad/audit"
)

// An audit plays a game against what would be released, and tries to refute the ε that
// is claimed. A correct configuration is convicted with probability 0.002 at most;
// under seeded noise it comes out the same each time.
func ExampleRun() {
	c := audit.Default()
	c.Runs, c.Noise, c.Seed = 400, "seeded", 1
	r, err := audit.Run(context.Background(), c)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("convicted:", r.Convicted)
	fmt.Println("the lower bound is below the claim:", r.EpsilonLowerBound < r.EpsilonClaimed)
	// Output:
	// convicted: false
	// the lower bound is below the claim: true
}
