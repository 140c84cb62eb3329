"""Commands about a cluster and not about a sweep: GKE, drivers, Secret, rights, image, orphans."""
