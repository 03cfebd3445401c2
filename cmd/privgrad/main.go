// Command privgrad trains neural networks with differential privacy.
package main

import "github.com/privgrad/privgrad/cmd"

func main() { cmd.Main(cmd.Options{}) }
