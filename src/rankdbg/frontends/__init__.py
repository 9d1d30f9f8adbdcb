"""What a user touches: cli/ today; every frontend stands on session.Session alone."""
