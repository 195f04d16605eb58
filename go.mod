module ibrun

go 1.26
