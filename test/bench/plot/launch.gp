# Usage: gnuplot -c launch.gp TABLE PICTURE. Plots the launch times in TABLE, with one row for each case.
set terminal svg size 1000,820 font "sans-serif,12" background "white"
set output ARG2
set datafile separator tab
set logscale x
set yrange [*:*] reverse
set offsets 0, 0, 0.5, 0.5
set linetype 5 linecolor rgb "#c8553d"
set grid
set key outside center top horizontal maxcols 2
set xlabel "from the command to the last line of all ranks, ms, medians of launches in turns"
plot for [i=4:14:2] ARG1 using i:0:yticlabels(1) with points pointtype 7 pointsize 0.7 title columnhead(i)
