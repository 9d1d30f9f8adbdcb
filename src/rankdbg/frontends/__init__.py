"""What a user touches: cli/ and shell/; every frontend stands on session.Session alone."""
