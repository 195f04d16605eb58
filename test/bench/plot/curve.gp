# Usage: gnuplot -c curve.gp TABLE PICTURE TITLE. Plots round trip times over the length of messages.
set terminal svg size 1000,440 font "sans-serif,12" background "white"
set output ARG2
set datafile separator tab
set logscale xy
set grid
set for [i=1:8] linetype i pointtype 7 pointsize 0.5
set key left top noenhanced
set xlabel "length of a message, bytes"
set format x "10^{%L}"
set multiplot layout 1,2 title ARG3
stats ARG1 using 1:2 skip 2 nooutput
set ylabel "round trip, us"
plot for [i=2:STATS_columns] ARG1 using 1:i with linespoints title columnhead(i)
set ylabel "both ways together, MB/s"
plot for [i=2:STATS_columns] ARG1 using 1:(2*$1/column(i)) with linespoints title columnhead(i)
