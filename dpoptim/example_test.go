package dpoptim_test

import (
	"fmt"
	"log"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
)

// A method says what each step asks of the records, with the noise as a value. What it
// did not declare is refused when it asks.
func ExampleGaussianSum() {
	const clip = 1
	declared := dpoptim.Declaration{Asks: []dpoptim.Ask{dpoptim.GaussianSum(clip)}}
	if err := declared.Check(dpoptim.Traits{Name: "mine", Private: true}, accountant.PLD); err != nil {
		log.Fatal(err)
	}
	release, err := declared.Asks[0].Release(1.1) // at a noise multiplier
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("question: %v, noise: %s, bound on a record: %v\n", declared.Asks[0].Question, release.Noise.Name(), release.Bound)
	// Output:
	// question: gradient, noise: gaussian, bound on a record: 1
}
