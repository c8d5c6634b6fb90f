"""The HTTPS endpoints: health open to everyone, the rest behind the cluster's access control."""
