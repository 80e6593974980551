"""What every stage uses: tables, files, quantities, CPU lists, problems."""
