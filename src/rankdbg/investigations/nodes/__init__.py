"""The machines of a job: their health, what works on them, and the files on their disks."""
