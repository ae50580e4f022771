"""What datapipes are made with: columns and files, decoders of files by their names, continuing at a place."""
