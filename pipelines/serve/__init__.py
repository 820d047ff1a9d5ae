"""Services of parties that devices speak to: an endpoint of reports, an issuer, an OPRF party."""
