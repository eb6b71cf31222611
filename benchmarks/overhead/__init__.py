"""What a loader or triggers cost the application that writes."""
