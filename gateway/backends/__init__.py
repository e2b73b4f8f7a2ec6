"""What executes commands.  Each module here, or dropped into a plugin folder, offers one IBackendMaker."""
