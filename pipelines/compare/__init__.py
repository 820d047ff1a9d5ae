"""`hushbeam compare`: what differs beyond noise between two releases, or within one."""
