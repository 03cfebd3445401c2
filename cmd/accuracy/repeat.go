package main

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat"
)

// repeat runs recipes again, and says how far fresh runs are from the rows of the page. Nothing is written to a file.
func repeat(ctx context.Context, o options) error {
	done, err := readMeasured()
	if err != nil {
		return err
	}
	apart := 0
	runs := &together{options: o}
	for _, data := range o.sets {
		for _, epsilon := range o.epsilons {
			row := of(done, data, data, epsilon)
			if row.runs < 2 {
				continue
			}
			var fresh []float64
			for seed := 1; seed <= o.seeds; seed++ {
				m, err := runs.run(ctx, data, epsilon, seed)
				if err != nil {
					return err
				}
				fresh = append(fresh, 100*m.accuracy)
			}
			mean := stat.Mean(fresh, nil)
			z := (mean - row.accuracy) / (row.deviation * math.Sqrt(1/float64(len(fresh))+1/float64(row.runs)))
			fmt.Printf("%s at epsilon %g: %.2f in %d runs, %.2f in the %d of the page: %+.1f standard errors of the difference\n", names[data], epsilon, mean, len(fresh), row.accuracy, row.runs, z)
			if math.Abs(z) > 3 {
				apart++
			}
		}
	}
	if apart > 0 {
		return fmt.Errorf("%d rows are more than three standard errors away: repeat these with --seeds 5", apart)
	}
	return nil
}
