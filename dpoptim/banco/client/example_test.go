package client_test

import (
	"fmt"
	"log"

	"github.com/privgrad/privgrad/dpoptim/banco"
	"github.com/privgrad/privgrad/dpoptim/banco/client"
)

// A server learns a typical value from clients, each of whom holds one and reports once. Their loss is |w − value|,
// whose gradient is −1 or 1.
func Example() {
	p, err := banco.New(4, 1, 1) // ε of a report, the bound on gradients, the number of parameters
	if err != nil {
		log.Fatal(err)
	}
	server := banco.NewServer(p)
	for i := range 5000 {
		value := float64(i % 3) // which the server never sees
		c, err := client.New(p)
		if err != nil {
			log.Fatal(err)
		}
		gradient := []float64{-1}
		if server.Point()[0] > value {
			gradient[0] = 1
		}
		report, err := c.Report(gradient)
		if err != nil {
			log.Fatal(err)
		}
		if err := server.Update(report); err != nil {
			log.Fatal(err)
		}
	}
	model := server.Average() // near the median, 1
	fmt.Println(server.Reports(), "reports of", len(model), "parameter")
	// Output: 5000 reports of 1 parameter
}
