#!/bin/bash
# gridengine.sh DIR NODE... starts Grid Engine on the nodes of a virtual cluster, and keeps its files in DIR. The script
# must run on the front of the cluster, the host from which tests start jobs. The front becomes the master host and a
# submit host. The script configures the parallel environment mpi and the queue all.q, with two slots on each node.
set -u # not -e, because qconf fails if an object already exists; StartGridEngine checks that all nodes accept jobs
dir=$1
shift
var=/var/lib/gridengine
mkdir -p "$SGE_ROOT/default/common" "$dir/spool/qmaster/job_scripts" "$dir/spool/spooldb" "$dir/execd"
for part in util bin lib utilbin; do [ ! -e $var/$part ] || cp -a $var/$part "$SGE_ROOT/"; done
echo front >"$SGE_ROOT/default/common/act_qmaster"
sed -e "s#$var/spooldb#$dir/spool/spooldb#; s#/var/spool/gridengine/spooldb#$dir/spool/spooldb#" \
	-e "s#/var/spool/gridengine/qmaster#$dir/spool/qmaster#" $var/default/common/bootstrap \
	>"$SGE_ROOT/default/common/bootstrap"
chown -R sgeadmin: "$SGE_ROOT" "$dir/spool" "$dir/execd"
as() { su -s /bin/bash -c "$*" sgeadmin; }
as "SGE_ROOT=$SGE_ROOT /usr/share/gridengine/scripts/init_cluster $SGE_ROOT default $dir/spool/spooldb sgeadmin"
/usr/sbin/sge_qmaster
for _ in $(seq 100); do
	as "SGE_ROOT=$SGE_ROOT SGE_QMASTER_PORT=$SGE_QMASTER_PORT qconf -am root"
	! qconf -sm | grep -qx root || break
	sleep 0.2
done
qconf -as front
for host in "$@"; do
	qconf -ah "$host"
	qconf -as "$host"
done

# qconf uses the name of the file as the name of the configuration, which must be global.
qconf -sconf | sed -e "s#^execd_spool_dir.*#execd_spool_dir $dir/execd#" \
	-e 's#^execd_params.*#execd_params ENABLE_ADDGRP_KILL=TRUE#' \
	-e 's#^min_[ug]id.*##' -e 's#^gid_range.*#gid_range 20000-20100#' >"$dir/global"
printf 'min_uid 0\nmin_gid 0\n' >>"$dir/global"
qconf -Mconf "$dir/global"
qconf -ssconf | sed -e 's/^schedule_interval.*/schedule_interval 0:0:1/' -e 's/^flush_submit_sec.*/flush_submit_sec 1/' \
	-e 's/^flush_finish_sec.*/flush_finish_sec 1/' >"$dir/scheduler"
qconf -Msconf "$dir/scheduler"
printf 'group_name @allhosts\nhostlist %s\n' "$*" >"$dir/hosts"
qconf -Ahgrp "$dir/hosts"
cat >"$dir/mpi" <<'END'
pe_name            mpi
slots              999
user_lists         NONE
xuser_lists        NONE
start_proc_args    NONE
stop_proc_args     NONE
allocation_rule    $fill_up
control_slaves     TRUE
job_is_first_task  FALSE
urgency_slots      min
accounting_summary FALSE
qsort_args         NONE
END
qconf -Ap "$dir/mpi"
qconf -sq >"$dir/queue"
sed -i -e 's/^qname.*/qname all.q/' -e 's/^hostlist.*/hostlist @allhosts/' -e 's/^load_thresholds.*/load_thresholds NONE/' \
	-e 's/^pe_list.*/pe_list mpi/' -e 's/^slots.*/slots 2/' -e 's#^shell .*#shell /bin/bash#' \
	-e 's/^shell_start_mode.*/shell_start_mode unix_behavior/' -e 's#^tmpdir.*#tmpdir /tmp#' \
	-e 's/^notify .*/notify 00:00:02/' "$dir/queue"
qconf -Aq "$dir/queue"
for host in "$@"; do
	/run/vcluster/vrsh -n "$host" "SGE_ROOT=$SGE_ROOT SGE_CELL=default SGE_QMASTER_PORT=$SGE_QMASTER_PORT \
SGE_EXECD_PORT=$SGE_EXECD_PORT /usr/sbin/sge_execd >/dev/null 2>&1" &
done
wait
