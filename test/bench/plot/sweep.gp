# Usage: gnuplot -c sweep.gp TABLE PICTURE. Plots launch times over the added latency of a session.
set terminal svg size 1200,460 font "sans-serif,12" background "white"
set output ARG2
set datafile separator tab
set logscale y
set grid
set for [i=1:8] linetype i pointtype 7 pointsize 0.5
set yrange [10:*]
set xrange [-0.3:3.3]
set key bottom right
set linetype 5 linecolor rgb "#c8553d"
set xlabel "additional time of a session"
set ylabel "ms"
set multiplot layout 1,3 title "Launches over slow sessions"
do for [block=0:2] {
	set title word("16 64 256", block+1)." nodes"
	plot for [i=2:6] ARG1 index block using 0:i:xticlabels(1) with linespoints title columnhead(i)
}
