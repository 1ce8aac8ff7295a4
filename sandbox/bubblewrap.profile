# What every bubblewrap sandbox of ctxmgr is made of: options of bwrap(1), in order.
# The agent's mounts, its /tmp and its network come after these; a copy of this file can be given
# in its place.

# Its own users, processes, host name and shared memory. Root on the host is root inside, without
# any capability; no further user namespace can be made, where bubblewrap is 0.8 or newer.
--unshare-user --unshare-ipc --unshare-pid --unshare-uts --unshare-cgroup-try
--disable-userns
--cap-drop ALL
--hostname sandbox

# It ends with the process that started it, and cannot type into that one's terminal.
--die-with-parent --new-session

# The host's programs, to be read. None of /home, /root, /var, /opt, /srv, /run, /sys, /boot.
--ro-bind /usr /usr
--ro-bind-try /bin /bin
--ro-bind-try /sbin /sbin
--ro-bind-try /lib /lib
--ro-bind-try /lib32 /lib32
--ro-bind-try /lib64 /lib64
--ro-bind-try /etc/alternatives /etc/alternatives
--ro-bind-try /etc/ca-certificates /etc/ca-certificates
--ro-bind-try /etc/ld.so.cache /etc/ld.so.cache
--ro-bind-try /etc/localtime /etc/localtime
--ro-bind-try /etc/ssl/certs /etc/ssl/certs

# Only its own processes. Settings of the kernel are the host's, and the host's root could write
# them from inside even without capabilities: they are covered read-only.
--proc /proc
--ro-bind-try /proc/sys /proc/sys
--ro-bind-try /proc/sysrq-trigger /proc/sysrq-trigger
--ro-bind-try /proc/mtrr /proc/mtrr
--dev /dev
