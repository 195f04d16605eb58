package main

// helpText fits 80 columns. docs/cli.md has every option and spelling.
const helpText = `usage: ibrun [options] [NAME=VALUE ...] program [arguments] [: more programs]

ranks and hosts
  -n N                   ranks in all (also -np, --ntasks)
  -ppn N                 ranks per node (also --ntasks-per-node)
  --hosts LIST           a,b:2,n[01-16,20] (also -host, -H, -w)
  -f FILE                host file (also --hostfile, --machinefile)
  --exclude LIST         hosts to leave out
  --spares N             the last N hosts replace nodes that do not start
  --min-nodes M          continue with fewer ranks if M nodes can be started
  -o N                   slots to skip first, with -n (as TACC's ibrun)
  --nodes N              the first N hosts; --rankfile FILE as in mpirun
  --no-allocation        ignore the job of Slurm, PBS, LSF, ... that it runs in
  --shared-steps         one step of Slurm for many nodes; opens a port then
  Without hosts those of that job count, or else this machine.

placement (docs/placement.md; default: an equal share of the node's CPUs)
  --map-by OBJECT        slot, node, load, core, l3cache, numa, package or
                         ppr:N:OBJECT; :PE=N (cores per rank), :SPAN may follow
  --bind-to OBJECT       none, hwthread, core, l3cache, numa, package
  -c N                   cores per rank; -m, --cpu-bind as in srun
  --hca LIST             mlx5_0,mlx5_1:2 instead of the nearest
  --report-bindings      print where ranks run, from the kernel; --json: as data

input and environment of ranks
  -wdir DIR              working directory
  -x NAME[=V]            forward or set a variable (all are forwarded by default
                         but those of one node, like DISPLAY)
  -env N V, -genv N V    set a variable for one program, for all
  -envlist A,B -genvnone forward only these, or none
  --stdin RANK|all|none  rank that reads standard input (0)
  --input FILE           per-rank input: %r rank, %h host, %t rank on node

output
  -l, --label            each line begins with its rank
  --timestamp-output     and the time
  --output FILE --error FILE   per-rank files on the nodes, same patterns
  --output-filename DIR  both: files below DIR on the nodes, and the terminal
  --merge-stderr-to-stdout, -u (unbuffered), --line-buffered
  --pty                  rank 0 (or that of --stdin) has the terminal

end
  --timeout T            of the whole job: 90, 90s, 10m (exit code 124)
  --keep-going           keep running after a rank fails (default: end the job,
                         as with -K)
  --on-failure end|continue|restart|restart-all   what a failed rank means: the
                         job's end, nothing, that it starts again, or all do
  --on-agent-loss end|repair   what a lost agent means: the job's end, or the
                         loss of its node only, whose ranks start again
                         with --on-failure restart (there the default)
  --max-restarts N[/T]   restarts in the job (3), or within any time T
  --hold                 start ranks stopped, before their first instruction;
                         ibrun ctl cont lets them run
  --contain              a PID namespace for the processes of each node: the
                         kernel ends them all when the node's reaper ends
  -W T, --wait T         end the job T after the first node's ranks have ended
  --kill-grace T         from SIGTERM to SIGKILL (2s)
  --print-all-exitcodes

launch
  --launcher NAME        auto, ssh, rsh, local, slurm, sge, lsf, flux, pbs
  --launcher-exec "CMD"  called as CMD host command
  --ssh-args "ARGS"      more arguments for the launcher
  --ssh auto|native|exec ssh sessions by ibrun itself, by the program ssh
  --tree T               auto, flat, chain, kary:K, binomial, two-level, greedy
  --batch N              sessions in flight per parent
  --launch-timeout T     without progress of a session or a start of ranks (15s)
  --agent-path PATH      an ibrun that is installed on the nodes
  --pmi-port             PMI over 127.0.0.1 instead of a descriptor
  --ccs-port PORT        clients of a Charm++ program connect to 127.0.0.1 here
  --ccs-auth FILE        and have to know a key of this file
  --timing, --trace FILE, --report FILE.html   see the launch (docs/timing.md)
  --trace-events FILE    write the events and effects of each agent as text
  --calibrate            print the measured launch costs that the planner uses
  --no-preflight         do not check program and directory on this host first

ranks that use the package ibrun
  --fabric auto|ib|udp|tcp   InfiniBand where available (auto), or only (ib);
                         Ethernet, datagrams first (udp) or TCP only (tcp)
  --gid-index N, --sl N|path, --pkey KEY, --poll spin       InfiniBand and RoCE
  --lazy[=on|off|auto]   look up peers when needed; --eager: all at the start
  --iface NAME|ADDR/BITS the network interface for data
  --stats[=json]         peers, look-ups, connections, on standard error

other
  --dry-run (-show), --display map,bind,topo,allocation, -v, -q, -V, -h
  ibrun ctl [VERB]       ask a running job: status, ranks, top, stacks, signal,
                         end and more (ibrun ctl --help, docs/control.md)
  --doctor               examine the nodes of --hosts instead of running; --json
  --capture FILE, --topo-input FILE   a node's sysfs, for bug reports

Exit code: that of the first rank that failed, 128 + signal if it was killed;
2 usage, 124 time-out, 125 ibrun or a node failed, 126 and 127 no such program.
`
