# The bwrap(1) options of every bubblewrap sandbox, in order.
# The options for the agent's mounts, /tmp and network follow these. A modified copy of this file can
# be used instead.

# Separate users, processes, host name and shared memory. Root on the host is root inside, without
# capabilities. No further user namespaces can be created (bubblewrap 0.8 or newer).
--unshare-user --unshare-ipc --unshare-pid --unshare-uts --unshare-cgroup-try
--disable-userns
--cap-drop ALL
--hostname sandbox

# Ends with the process that started it, and cannot inject input into that process's terminal.
--die-with-parent --new-session

# The host's programs, read-only. Nothing from /home, /root, /var, /opt, /srv, /run, /sys, /boot.
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

# Only the sandbox's own processes. Kernel settings are those of the host, and root could write them
# from inside even without capabilities, so they are mounted read-only.
--proc /proc
--ro-bind-try /proc/sys /proc/sys
--ro-bind-try /proc/sysrq-trigger /proc/sysrq-trigger
--ro-bind-try /proc/mtrr /proc/mtrr
--dev /dev
